"""The check of a GPU runs whole on a CPU, at toy sizes, and no section costs another."""

import json
from contextlib import contextmanager

import pytest

from benchmarks.gpu_check import repeat, section_process, server, tests
from benchmarks.gpu_check.__main__ import main
from benchmarks.gpu_check.environment import missing
from benchmarks.gpu_check.plan import TOY
from benchmarks.gpu_check.record import Record
from benchmarks.gpu_check.sections import SECTIONS, Section, Work, run_here
from benchmarks.gpu_check.summary import markdown

HERE = [name for name in SECTIONS if name not in ("tests", "server-larger")]
"""Those that run in this process, all on one server; a larger one is the same again."""
LONG_S = 240
"""What nothing takes, on a machine with much else to do either."""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What each section wrote."""
    work = Work(TOY, "cpu", tmp_path_factory.mktemp("work"))
    records = {name: work.directory / f"{name}.json" for name in HERE}
    with (
        pytest.MonkeyPatch.context() as patch,
        server.serving(work, Record(work.directory / "shared.json", LONG_S), 0) as running,
    ):

        @contextmanager
        def serving(work, record, scale):
            record.add(scale=work.plan.scales[scale], ready_s=running.ready_s)
            yield running

        patch.setattr(server, "serving", serving)
        patch.setattr(repeat, "serving", serving)
        for name, path in records.items():
            run_here(SECTIONS[name], work, Record(path, LONG_S))
    return {name: json.loads(path.read_text()) for name, path in records.items()}


@pytest.mark.parametrize("name", HERE)
def test_section_runs_on_a_cpu(found, name):
    assert found[name]["status"] == "ok", found[name]["error"]


def test_every_back_end_is_measured_and_right_in_every_shape(found):
    cells = found["attention"]["figures"]["cells"]
    measured = {(cell["shape"], cell["backend"]) for cell in cells if "error" not in cell}
    assert measured >= {(shape.title, name) for shape in TOY.shapes for name in ("sdpa", "reference")}
    assert all(cell["difference"] < 0.02 for cell in cells if "error" not in cell)


def test_server_answers_all_and_finds_the_picture_again(found):
    cells = found["server"]["figures"]["cells"]
    assert [(cell["workload"], cell["concurrency"]) for cell in cells] == [
        (workload, users) for workload in TOY.workloads for users in TOY.users
    ]
    assert found["repeat"]["figures"]["warm_equals_warm"]
    assert found["repeat"]["figures"]["cached"][1:] == [found["repeat"]["figures"]["prompt_tokens"] - 1] * 2


def test_summary_tells_of_every_section(found):
    text = markdown({"device": "cpu", "plan": "toy", "sections": found})
    assert [line.split(":")[0] for line in text.splitlines() if line.startswith("## ")] == [
        "## Attention",
        "## Decode step",
        "## Server, tiny",
        "## Server, tiny, INTARSIA_CUDA_GRAPHS=false",
        "## The same picture three times",
    ]


def test_nothing_new_is_begun_when_time_is_over(tmp_path):
    record = Record(tmp_path / "found.json", 0)
    assert run_here(SECTIONS["attention"], Work(TOY, "cpu", tmp_path), record)
    cells = json.loads((tmp_path / "found.json").read_text())["figures"]["cells"]
    assert [cell["error"] for cell in cells] == ["no time left"] * len(TOY.shapes)


def test_tests_are_counted_with_their_reasons(tmp_path):
    (tmp_path / "test_three.py").write_text(
        "import pytest\n"
        "def test_good(): pass\n"
        "def test_bad(): assert 1 == 2, 'not at all'\n"
        "def test_elsewhere(): pytest.skip('no such card')\n"
    )
    work = Work(TOY._replace(test_paths=(str(tmp_path / "test_three.py"),)), "cpu", tmp_path)
    assert not run_here(
        Section(tests.__name__.rpartition(".")[2], 1), work, Record(tmp_path / "found.json", LONG_S)
    )
    content = json.loads((tmp_path / "found.json").read_text())
    figures = content["figures"]
    assert (figures["passed"], figures["failed"], figures["skipped"]) == (1, 1, 1)
    ((name, text),) = figures["failures"].items()
    assert name.endswith("test_bad")
    assert "not at all" in text
    assert figures["skipped_because"] == {"Skipped: no such card": 1}
    assert "TESTS_FAILED" in content["error"]
    assert "- skipped 1: Skipped: no such card" in markdown(
        {"device": "cpu", "plan": "toy", "sections": {"tests": content}}
    )


@pytest.mark.parametrize(
    ("end", "seconds", "told"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", LONG_S, "exit code -9\n\nlast words"),
        ("raise SystemExit(3)", LONG_S, "exit code 3\n\nlast words"),
        ("time.sleep(600)", 0.5, "took longer than 0 s"),
    ],
    ids=["killed", "leaves", "hangs"],
)
def test_what_was_found_before_an_accident_is_kept(end, seconds, told, tmp_path):
    path = tmp_path / "found.json"
    Record(path, LONG_S).add(first=1)
    program = f"import os, signal, time; print('last words', flush=True); {end}"
    content = section_process.run(["-c", program], path, seconds)
    assert content["status"] == "failed"
    assert content["figures"] == {"first": 1}
    assert content["error"].startswith(told) or content["error"].startswith(f"ended with {told}")


@pytest.mark.parametrize(("seconds", "code", "status"), [("0", 1, "failed"), (str(LONG_S), 0, "ok")])
def test_command_writes_both_files_and_says_how_it_went(seconds, code, status, tmp_path, capsys):
    out = tmp_path / "new" / "check.json"
    assert main(["--toy", "--seconds", seconds, "--only", "environment", "--out", str(out)]) == code
    content = json.loads(out.read_text())["sections"]["environment"]
    assert content["status"] == status, content["error"]
    assert out.with_suffix(".md").read_text() in capsys.readouterr().out


def test_missing_and_old_packages_are_told():
    wanted = ["pytest>=8", "pytest>=1000", "no-such-package", "no-such-package; sys_platform == 'win32'"]
    old, absent = missing(wanted)
    assert old.startswith("pytest>=1000 (there is ")
    assert absent == "no-such-package"
