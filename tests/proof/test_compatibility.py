"""docs/compatibility.md says what is proved and what is refused: its tables against the program."""

import json
from pathlib import Path
from typing import Any

import pytest

from engine.config import EngineConfig
from engine.runner import build_runner
from models.checkpoint import Checkpoint, CheckpointError
from models.loader import load_model
from models.registry import FAMILIES
from tests.checkpoints import write_json
from tests.proof import compatibility, families
from tests.proof.compatibility import INDIVISIBLE, NOT_FUSED, PROVED, REFUSALS, Refusal


def test_the_families_under_proof_are_those_of_the_page() -> None:
    checkpoints = {name: Checkpoint.open(str(families.directory(name))) for name in families.FAMILIES}
    assert {name: checkpoint.architecture for name, checkpoint in checkpoints.items()} == PROVED


@pytest.mark.parametrize("architecture", FAMILIES)
def test_every_architecture_is_served_by_classes_under_proof(architecture: str) -> None:
    assert compatibility.prover(architecture)
    assert f"`{architecture}`" in compatibility.page()


@pytest.mark.parametrize("name", PROVED)
def test_the_same_bits_are_promised_where_layers_are_fused(name: str) -> None:
    config = EngineConfig(model="", attention_backend="native", num_threads=1)
    runner = build_runner(families.model(name, "native"), config, 8)
    assert runner.is_row_invariant == (name not in NOT_FUSED)


@pytest.mark.parametrize("name", PROVED)
def test_media_are_indivisible_where_the_page_says_so(name: str) -> None:
    processing = families.model(name).processing
    assert processing.bidirectional_kinds == (processing.kinds if name in INDIVISIBLE else set())
    assert bool(families.FAMILIES[name].indivisible) == (name in INDIVISIBLE)


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.what)
def test_what_is_not_supported_is_refused_at_start(refusal: Refusal, tmp_path: Path) -> None:
    families.FAMILIES[refusal.family].make(tmp_path)
    load_model(Checkpoint.open(str(tmp_path)))
    file = tmp_path / refusal.file
    write_json(file, _changed(json.loads(file.read_text()), refusal.change))
    with pytest.raises(CheckpointError, match="not supported"):
        load_model(Checkpoint.open(str(tmp_path)))


def _changed(config: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    merged = {
        key: _changed(config[key], value) if isinstance(config.get(key), dict) else value
        for key, value in change.items()
    }
    return {**config, **merged}
