"""Media from a directory that the operator opened to all clients. Off unless a root is given."""

import os
import stat
from pathlib import Path
from typing import BinaryIO, NamedTuple
from urllib.parse import unquote

from models.processing.base import MediaError

_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class MediaFile(NamedTuple):
    """An opened file: `read` it, or close it."""

    file: BinaryIO
    num_bytes: int

    def read(self) -> bytes:
        """No more than `num_bytes`, whatever has become of the file. Blocking; closes it."""
        with self.file:
            return self.file.read(self.num_bytes)

    def close(self) -> None:
        self.file.close()


def open_file(url: str, root: Path | None, max_bytes: int) -> MediaFile:
    """The regular file behind a `file:///...` URL. Blocking: call it in a worker thread.

    What counts is where the path leads after all links. Every failure reads the same, so nothing can be
    learnt about files outside the root. MediaError otherwise.
    """
    if root is None:
        raise MediaError(
            "file: URLs are disabled on this server; send the media as a data URL.", "invalid_image_url"
        )
    path = unquote(url[len("file://") :])
    try:
        if not path.startswith("/") or "\0" in path:
            raise ValueError("not an absolute path on this host")
        resolved_root = root.resolve(strict=True)
        inside = Path(path).resolve(strict=True).relative_to(resolved_root)
        descriptor = _open_below(resolved_root, inside)
    except (OSError, ValueError, RuntimeError):
        raise MediaError(
            "There is no such media file that this server may read.", "image_file_not_found"
        ) from None
    opened = MediaFile(os.fdopen(descriptor, "rb"), os.fstat(descriptor).st_size)
    if opened.num_bytes > max_bytes:
        opened.close()
        raise MediaError(f"The media file is larger than {max_bytes} bytes.", "image_file_too_large")
    return opened


def _open_below(root: Path, inside: Path) -> int:
    """Open component by component without following links, so that a link put there meanwhile leads
    nowhere."""
    directory = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in inside.parts[:-1]:
            below = os.open(part, _OPEN | os.O_DIRECTORY, dir_fd=directory)
            os.close(directory)
            directory = below
        descriptor = os.open(inside.name, _OPEN, dir_fd=directory)
    finally:
        os.close(directory)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError("not a regular file")
    return descriptor
