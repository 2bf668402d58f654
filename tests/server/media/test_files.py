"""Files only from inside the root, by where a path really leads."""

import os
from pathlib import Path

import pytest

from models.processing.base import MediaError
from server.media.files import open_file


def read_file(url: str, root: Path | None, max_bytes: int) -> bytes:
    return open_file(url, root, max_bytes).read()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "media"
    (root / "deep").mkdir(parents=True)
    (root / "a b.png").write_bytes(b"inside")
    (root / "deep" / "b.png").write_bytes(b"deeper")
    (root / "link.png").symlink_to(root / "deep" / "b.png")
    (tmp_path / "media-secret").mkdir()
    (tmp_path / "media-secret" / "c.png").write_bytes(b"secret")
    (root / "out.png").symlink_to(tmp_path / "media-secret" / "c.png")
    (root / "way").symlink_to(tmp_path / "media-secret")
    os.mkfifo(root / "fifo")
    return root


def test_off_without_a_root(root: Path) -> None:
    with pytest.raises(MediaError, match="disabled") as caught:
        read_file(f"file://{root}/a b.png", None, 100)
    assert caught.value.code == "invalid_image_url"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a%20b.png", b"inside"),
        ("deep/b.png", b"deeper"),
        ("deep/../deep/b.png", b"deeper"),
        ("link.png", b"deeper"),
    ],
)
def test_inside(root: Path, name: str, content: bytes) -> None:
    assert read_file(f"file://{root}/{name}", root, 100) == content


def test_root_may_be_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(root)
    assert read_file(f"file://{tmp_path}/alias/deep/b.png", tmp_path / "alias", 100) == b"deeper"


@pytest.mark.parametrize(
    "name",
    [
        "missing.png",
        "../media-secret/c.png",
        "%2e%2e/media-secret/c.png",
        "deep/%2E%2E/../../media-secret/c.png",
        "out.png",
        "way/c.png",
        "fifo",
        "deep",
        "",
        "a b.png%00.png",
        "a b.png/x",
        "x" * 5000,
    ],
)
def test_outside(root: Path, name: str) -> None:
    with pytest.raises(MediaError) as caught:
        read_file(f"file://{root}/{name}", root, 100)
    assert caught.value.code == "image_file_not_found"
    assert str(caught.value) == "There is no such media file that this server may read."


@pytest.mark.parametrize(
    "url", ["file:///proc/self/environ", "file:///etc/passwd", "file://host/a.png", "file:a.png"]
)
def test_elsewhere(root: Path, url: str) -> None:
    with pytest.raises(MediaError) as caught:
        read_file(url, root, 100)
    assert caught.value.code == "image_file_not_found"


def test_size(root: Path) -> None:
    with pytest.raises(MediaError) as caught:
        read_file(f"file://{root}/deep/b.png", root, 5)
    assert caught.value.code == "image_file_too_large"


def test_a_file_that_grows_is_read_as_far_as_was_said(root: Path) -> None:
    opened = open_file(f"file://{root}/deep/b.png", root, 100)
    (root / "deep" / "b.png").write_bytes(b"deeper" * 100)
    assert (opened.num_bytes, opened.read()) == (6, b"deeper")


def test_no_descriptor_is_left(root: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for name in ("deep/b.png", "fifo", "out.png", "deep", "missing"):
        try:
            read_file(f"file://{root}/{name}", root, 100)
        except MediaError:
            continue
    assert len(os.listdir("/proc/self/fd")) == before
