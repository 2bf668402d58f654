"""The C library is built once, and where it can't be had, something else serves."""

import os
from pathlib import Path

import pytest
import torch

from engine.attention.choice import choose_backend
from engine.attention.sdpa import SdpaBackend
from engine.native import build as build_module
from engine.native.build import NativeUnavailable, build
from engine.native.library import Library
from models.interface import AttentionSpec


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    build.cache_clear()
    yield tmp_path / "intarsia"
    build.cache_clear()


def test_the_library_is_built_once_into_the_users_cache(empty_cache: Path, monkeypatch) -> None:
    first = build()
    assert list(empty_cache.iterdir()) == [first]
    build.cache_clear()
    monkeypatch.setattr(build_module, "_compile", lambda *_: pytest.fail("compiled again"))
    assert build() == first


def script(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    path.chmod(0o755)
    return str(path)


def no_home(monkeypatch) -> None:
    """As of a user id that the machine has no name for."""
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 3_999_999_999)


@pytest.mark.parametrize(
    "cause",
    [
        "no compiler",
        "broken compiler",
        "no program",
        "slow compiler",
        "old processor",
        "no room",
        "no home",
        "not loadable",
    ],
)
def test_without_a_library_auto_is_sdpa_and_native_is_refused(
    cause: str, empty_cache: Path, tmp_path: Path, monkeypatch, caplog
) -> None:
    match cause:
        case "no compiler":
            monkeypatch.delenv("CC", raising=False)
            monkeypatch.setenv("PATH", str(empty_cache))
        case "broken compiler":
            monkeypatch.setenv("CC", "false")
        case "no program":
            monkeypatch.setenv("CC", script(tmp_path / "cc", b"\x7fELF of another machine"))
        case "slow compiler":
            monkeypatch.setenv("CC", script(tmp_path / "cc", b"#!/bin/sh\nexec sleep 100"))
            monkeypatch.setattr(build_module, "_TIMEOUT_S", 0)
        case "old processor":
            monkeypatch.setattr(build_module, "_cpu_features", lambda: frozenset({"sse2"}))
        case "no room":
            empty_cache.write_text("a file where the folder should be")
        case "no home":
            no_home(monkeypatch)
        case "not loadable":
            build().write_text("made for another machine")
    with pytest.raises(NativeUnavailable):
        Library(1)
    spec = AttentionSpec(num_heads=2, num_kv_heads=1, head_dim=16, scale=0.25, windows=(None,))
    pages = [torch.zeros(2, 16, 1, 16)]
    with caplog.at_level("INFO"):
        assert isinstance(choose_backend("auto", spec, pages, pages, 1), SdpaBackend)
    assert "not native" in caplog.text
    with pytest.raises(ValueError, match="no native back end"):
        choose_backend("native", spec, pages, pages, 1)
