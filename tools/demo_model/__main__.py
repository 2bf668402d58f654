"""The whole making, in order; about four hours on two CPU cores, resumable at every stage.

`python -m tools.demo_model` runs what has not been done yet. Needs the packages named in README.md.
"""

import subprocess
import sys

from tools.demo_model.fonts import FETCHED, FONTS
from tools.demo_model.pictures import CACHE
from tools.demo_model.tokens import CHECKPOINT

STAGES = (
    ("fonts", FONTS / FETCHED[-1]),
    ("pictures 0 36", CACHE / "pictures-035.npz"),
    ("sounds 0 12", CACHE / "sounds-011.pkl"),
    ("tokens", CHECKPOINT / "tokenizer.json"),
    ("see 1300", CACHE / "see.pt"),
    ("listen 900", CACHE / "listen.pt"),
    ("train 8000", CACHE / "train.pt"),
)
ALWAYS = ("export", "evaluate")


def run(stage: str) -> None:
    module, *arguments = stage.split()
    print(f"== {stage}", flush=True)
    subprocess.run([sys.executable, "-m", f"tools.demo_model.{module}", *arguments], check=True)


if __name__ == "__main__":
    for stage, product in STAGES:
        if not product.exists():
            run(stage)
    for stage in ALWAYS:
        run(stage)
