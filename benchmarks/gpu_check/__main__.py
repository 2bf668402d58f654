"""The command line of the check."""

import argparse
import json
import signal
import sys
import tempfile
import time
from pathlib import Path

import benchmarks.gpu_check
from benchmarks.gpu_check import section_process, summary
from benchmarks.gpu_check.plan import PLANS
from benchmarks.gpu_check.record import Record
from benchmarks.gpu_check.sections import SECTIONS, Work, run_here

UNHURRIED = 0.8
"""Share of its time after which a section begins nothing new."""


def main(argv: list[str] | None = None) -> int:
    """Exit code 1 if a section failed."""
    options = _parser().parse_args(argv)
    if options.inner:
        return _one(json.loads(options.inner))
    device, plan = _device(), "toy" if options.toy else "full"
    if device == "cpu" and plan == "full":
        print("No GPU that torch could use: a dry run at toy sizes, whose figures mean nothing.")
        plan = "toy"
    names = options.only or list(SECTIONS)
    results = {"device": device, "plan": plan, "sections": {}}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + options.seconds
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as directory:
        for index, name in enumerate(names):
            weights = [SECTIONS[later].weight for later in names[index:]]
            seconds = max(0.0, end - time.monotonic()) * weights[0] / sum(weights)
            found = Path(directory) / f"section-{index}.json"
            inner = {"section": name, "plan": plan, "device": device, "seconds": seconds, "found": str(found)}
            command = ["-m", "benchmarks.gpu_check", "--inner", json.dumps(inner)]
            content = section_process.run(command, found, seconds)
            results["sections"][name] = content
            print(f"{name}: {content['status']} after {content['seconds']:.0f} s", flush=True)
            options.out.write_text(json.dumps(results, indent=1))
            options.out.with_suffix(".md").write_text(summary.markdown(results))
    print(f"\n{options.out.with_suffix('.md').read_text()}")
    return int(any(content["status"] != "ok" for content in results["sections"].values()))


def _one(inner: dict) -> int:
    """One section, in a process that is there for it alone."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("told to end"))
    found = Path(inner["found"])
    work = Work(PLANS[inner["plan"]], inner["device"], found.parent)
    done = run_here(SECTIONS[inner["section"]], work, Record(found, UNHURRIED * inner["seconds"]))
    return int(not done)


def _device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu_check",
        description=benchmarks.gpu_check.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seconds", type=float, default=450, help="for everything together")
    parser.add_argument("--out", type=Path, default=Path("gpu_check.json"), metavar="FILE")
    parser.add_argument("--only", nargs="+", choices=list(SECTIONS), metavar="SECTION")
    parser.add_argument("--toy", action="store_true", help="toy sizes, as without a GPU")
    parser.add_argument("--inner", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
