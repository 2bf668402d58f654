"""A small held-out sample, written to tests/demo/assets with its questions and true answers in cases.json.

`python -m tools.demo_model.samples`. The tests ask the shipped checkpoint these; nothing here is trained on.
"""

import json
from pathlib import Path

import numpy as np
import soundfile
from PIL import Image

from tools.demo_model.answer import Turn
from tools.demo_model.evaluate import cases
from tools.demo_model.speak import RATE

ASSETS = Path(__file__).parents[2] / "tests" / "demo" / "assets"
PER_CATEGORY = 3


def store(part: object, name: str) -> dict[str, str]:
    """One part of a turn, as JSON; media go to a file of that name."""
    if isinstance(part, Image.Image):
        part.save(ASSETS / f"{name}.png", optimize=True)
        return {"picture": f"{name}.png"}
    if isinstance(part, np.ndarray):
        soundfile.write(ASSETS / f"{name}.flac", part, RATE)
        return {"sound": f"{name}.flac"}
    return {"text": str(part)}


def stored_turns(turns: list[Turn], name: str) -> list:
    found = []
    for i, (role, parts) in enumerate(turns):
        listed = [parts] if isinstance(parts, str) else parts
        found.append([role, [store(part, f"{name}-{i}{j}") for j, part in enumerate(listed)]])
    return found


def main() -> None:
    ASSETS.mkdir(parents=True, exist_ok=True)
    for old in ASSETS.iterdir():
        old.unlink()
    found = []
    for i, (qa, turns) in enumerate(cases(PER_CATEGORY, "samples")):
        if qa.category == "human digit":  # those recordings are not ours to give away
            continue
        found.append({"category": qa.category, "answer": qa.answer, "turns": stored_turns(turns, f"{i:02d}")})
    (ASSETS / "cases.json").write_text(json.dumps(found, indent=1) + "\n")
    print(f"{len(found)} cases, {sum(p.stat().st_size for p in ASSETS.iterdir()) / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
