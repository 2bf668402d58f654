"""The shipped checkpoint transcribes when it is asked as it says it wants to be asked."""

import json
from pathlib import Path

import soundfile

from models.checkpoint import Checkpoint
from server.settings import Settings
from server.transcription import INSTRUCTION, instruction
from tools.demo_model.answer import Demo

CHECKPOINT = Path(__file__).parents[2] / "models" / "demo"
ASSETS = Path(__file__).parent / "assets"


def spoken() -> list[Path]:
    """Recordings in which somebody speaks."""
    cases = json.loads((ASSETS / "cases.json").read_text())
    turns = [parts for case in cases if case["category"].startswith("spoken") for _, parts in case["turns"]]
    return [ASSETS / part["sound"] for parts in turns for part in parts if "sound" in part]


def test_it_answers_with_what_is_said() -> None:
    asked = instruction(Settings(), Checkpoint.open(str(CHECKPOINT)).generation_config)
    assert asked != INSTRUCTION
    demo = Demo(CHECKPOINT)
    sounds = [soundfile.read(path, dtype="float32")[0] for path in spoken()]
    assert sounds
    for sound in sounds:
        transcript = demo.answer([("user", [sound, asked])])
        assert transcript
        assert not transcript.startswith("I ")
