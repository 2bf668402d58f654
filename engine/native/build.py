"""Compiles the C sources of this folder once for a machine and keeps the result in the user's cache."""

import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

_SOURCES = Path(__file__).parent
_FLAGS = ("-std=gnu11", "-O3", "-fopenmp", "-shared", "-fPIC", "-Wno-psabi")
_TIMEOUT_S = 120


class NativeUnavailable(Exception):
    """There is no native library here; the message says why, for the log."""


@functools.cache
def build(machine: str = "native") -> Path:
    """The shared library, compiled for `machine` (the compiler's -march) unless the cache has it.

    Its name is made of all that shapes it: sources, flags, compiler, instruction set. It appears by a rename,
    so processes that start together never see half of it. NativeUnavailable, whatever stands in the way.
    """
    try:
        return _library(machine)
    except (OSError, RuntimeError, subprocess.TimeoutExpired) as error:  # RuntimeError: a user without a home
        raise NativeUnavailable(str(error)) from error


def _library(machine: str) -> Path:
    features = _cpu_features()
    if not {"avx2", "fma"} <= features:
        raise NativeUnavailable(f"this {platform.machine()} processor has no AVX2 and FMA")
    compiler = _compiler()
    command = (compiler, *_FLAGS, f"-march={machine}")
    library = _cache_directory() / f"native-{_fingerprint(command, features)}.so"
    if not library.exists():
        _compile(command, library)
    return library


def _compile(command: tuple[str, ...], library: Path) -> None:
    try:
        library.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=library.parent) as scratch:
            built = Path(scratch) / library.name
            sources = [str(path) for path in sorted(_SOURCES.glob("*.c"))]
            arguments = [*command, *sources, "-o", str(built), "-lm"]
            subprocess.run(arguments, check=True, capture_output=True, text=True, timeout=_TIMEOUT_S)
            built.replace(library)
    except subprocess.CalledProcessError as error:
        raise NativeUnavailable(f"{command[0]} failed: {error.stderr.strip()[-400:]}") from error


def _compiler() -> str:
    for name in (os.environ.get("CC"), "cc", "gcc", "clang"):
        if name and (path := shutil.which(name)):
            return path
    raise NativeUnavailable("no C compiler found (CC, cc, gcc, clang)")


def _fingerprint(command: tuple[str, ...], features: frozenset[str]) -> str:
    asking = [command[0], "--version"]
    version = subprocess.run(asking, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S).stdout
    sources = [path.read_text() for path in sorted(_SOURCES.glob("*.[ch]"))]
    parts = [*command, version, " ".join(sorted(features)), *sources]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def _cpu_features() -> frozenset[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return frozenset()
    flags = next((line for line in lines if line.startswith("flags")), "")
    return frozenset(flags.partition(":")[2].split())


def _cache_directory() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "intarsia"
