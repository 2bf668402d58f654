"""The figures that matter, as Markdown that fits a page."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

LOG_LINES = 8

Sections = dict[str, dict[str, Any]]


def markdown(results: dict[str, Any]) -> str:
    sections: Sections = results["sections"]
    figures = {name: content["figures"] for name, content in sections.items()}
    parts = [
        f"# Check of {_name(results, figures)}",
        _environment(figures.get("environment", {})),
        _table(["section", "status", "s"], ([n, c["status"], c["seconds"]] for n, c in sections.items())),
        *(_failure(name, content) for name, content in sections.items() if content["status"] != "ok"),
        _tests(figures.get("tests", {})),
        _attention(figures.get("attention", {})),
        _decode(figures.get("decode", {})),
        _server(figures),
        _repeat(figures.get("repeat", {})),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _name(results: dict[str, Any], figures: dict[str, Any]) -> str:
    card = figures.get("environment", {}).get("gpu", {}).get("name", results["device"])
    return card if results["plan"] == "full" else f"{card}, toy sizes: the figures mean nothing"


def _failure(name: str, content: dict[str, Any]) -> str:
    log = content["figures"].get("log", [])[-LOG_LINES:]
    return "\n".join([f"**{name}**", "```", content["error"].strip(), *log, "```"])


def _environment(found: dict[str, Any]) -> str:
    if not found:
        return ""
    packages = ", ".join(f"{name} {version}" for name, version in found.get("packages", {}).items())
    gpu = ", ".join(f"{key} {value}" for key, value in found.get("gpu", {}).items())
    driver = ", ".join(f"{key} {value}" for key, value in found.get("nvidia_smi", {}).items())
    missing = ", ".join(found.get("missing", [])) or "nothing"
    lines = [gpu, driver, packages, f"{found.get('cpu')}, {found.get('cores')} cores", f"missing: {missing}"]
    return "\n".join(f"- {line}" for line in lines if line)


def _tests(found: dict[str, Any]) -> str:
    if not found:
        return ""
    counts = ", ".join(f"{found[key]} {key}" for key in ("passed", "failed", "skipped") if key in found)
    failures = [f"- {test}: {text.strip().splitlines()[-1]}" for test, text in found["failures"].items()]
    skipped = [f"- skipped {n}: {reason}" for reason, n in found["skipped_because"].items()]
    return "\n".join([f"## Tests: {counts}", "", *failures, *skipped]).strip()


def _attention(found: dict[str, Any]) -> str:
    if "cells" not in found:
        return ""
    launch = ", ".join(f"{key} {_number(value)}" for key, value in found["launch_us"].items())
    best = f"Copy {found['bytes_per_s'] / 1e9:.0f} GB/s, product {found['flop_per_s'] / 1e12:.1f} TFLOP/s, "
    names = ["heads", "shape", "backend", "launched_ms", "graph_ms", "of_limit", "to_peer", "difference"]
    return f"## Attention\n\n{best}a launch in us: {launch}.\n\n{_rows(names, found['cells'])}"


def _decode(found: dict[str, Any]) -> str:
    names = ["size", "batch", "backend", "launched_ms", "graph_ms", "plan_ms", "floor_ms", "kv_ms"]
    names += ["of_floor", "of_floor_graph", "graphs"]
    if "cells" not in found:
        return ""
    parts = ["## Decode step", _rows(names, found["cells"])]
    for title, profile in found.items():
        if title.startswith("busiest"):
            rows = ([row["count"], row["us"], f"`{row['name']}`"] for row in profile["most"])
            parts.append(f"{title}: {profile['kernels']} kernels, {_number(profile['ms'])} ms")
            parts.append(_table(["times", "us", "kernel"], rows))
    return "\n\n".join(parts)


def _server(figures: dict[str, Any]) -> str:
    peer = {
        cell["users"]: cell["output_tokens_per_s"] for cell in figures.get("generate", {}).get("cells", [])
    }
    names = ["workload", "concurrency", "output_tokens_per_s", "ttft_first_ms", "ttft_later_ms"]
    names += ["gap_median_ms", "gap_p99_ms", "num_errors"]
    parts = []
    for section, found in figures.items():
        if not section.startswith("server") or "cells" not in found:
            continue
        is_peers = section == "server"  # it has the same checkpoint
        rows = [
            cell
            | (
                {"to_generate": cell["output_tokens_per_s"] / peer[cell["concurrency"]]}
                if is_peers and cell["workload"] == "text" and cell["concurrency"] in peer
                else {}
            )
            for cell in found["cells"]
        ]
        changed = "".join(f", {key}={value}" for key, value in found["settings"].items())
        parts.append(f"## Server, {found['scale']}{changed}: ready after {found['ready_s']:.1f} s")
        parts += [line for line in found.get("log", []) if "attention" in line or "CUDA graphs" in line]
        parts.append(_rows([*names, "to_generate"] if is_peers else names, rows))
    return "\n\n".join(parts)


def _repeat(found: dict[str, Any]) -> str:
    shown = {key: value for key, value in found.items() if key not in ("log", "scale")}
    lines = [f"- {key}: {_number(value)}" for key, value in shown.items()]
    return "\n".join(["## The same picture three times", "", *lines]) if lines else ""


def _rows(names: Sequence[str], rows: Iterable[dict[str, Any]]) -> str:
    """Cells by name; where a row has an error, that stands in the last one."""
    return _table(
        names,
        ([row.get(n, "") for n in names[:-1]] + [row.get("error", row.get(names[-1], ""))] for row in rows),
    )


def _table(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    lines += [
        "| " + " | ".join(_number(cell).replace("\n", " ")[:120] for cell in row) + " |" for row in rows
    ]
    return "\n".join(lines)


def _number(value: Any) -> str:
    """Three figures that count."""
    if not isinstance(value, float) or value == 0:
        return str(value)
    if not math.isfinite(value):
        return "–"
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"
