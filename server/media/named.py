"""Pictures and sounds that clients have given a name (`uuid`), so that they need not send them again.

A name belongs to one namespace (tenant and salt) and one content: it is bound to the digest of the bytes that
first came with it, and other bytes under the same name are refused. The bytes are held under a budget, least
recently used first out. That is enough: layouts, encodings and blocks are found by content, as for any other
request, and whatever of them is gone can be made anew from the bytes. A binding outlives its bytes, up to a
number of names; what is forgotten altogether is free again.
"""

from collections import OrderedDict
from typing import NamedTuple

from models.processing.base import MediaError
from server.media.source import Encoded


class Name(NamedTuple):
    namespace: bytes
    kind: str
    uuid: str


class NamedMedia:
    """One for the process. Event-loop only."""

    def __init__(self, capacity_bytes: int, max_names: int) -> None:
        self.capacity_bytes = capacity_bytes
        self.used_bytes = 0
        self._max_names = max_names
        self._digests: OrderedDict[Name, bytes] = OrderedDict()
        self._held: OrderedDict[tuple[bytes, bytes], bytes] = OrderedDict()
        """(namespace, digest) -> bytes: several names of one content hold it once."""

    def find(self, name: Name) -> Encoded:
        """What the name stands for. MediaError if nothing is held under it."""
        digest = self._digests.get(name)
        data = None if digest is None else self._held.get((name.namespace, digest))
        if digest is None or data is None:
            raise MediaError(
                f"No {name.kind} is held under this uuid (any more): send its data again.",
                "media_uuid_not_found",
            )
        self._digests.move_to_end(name)
        self._held.move_to_end((name.namespace, digest))
        return Encoded(data, digest)

    def bind(self, name: Name, encoded: Encoded) -> None:
        """Remember what came with a name. MediaError if it stood for something else."""
        known = self._digests.setdefault(name, encoded.digest)
        if known != encoded.digest:
            raise MediaError(
                f"This uuid already stands for another {name.kind}: use a new one.", "media_uuid_conflict"
            )
        self._digests.move_to_end(name)
        if len(self._digests) > self._max_names:
            self._digests.popitem(last=False)
        self._hold((name.namespace, encoded.digest), encoded.data)

    def _hold(self, content: tuple[bytes, bytes], data: bytes) -> None:
        if len(data) > self.capacity_bytes:
            return
        if content not in self._held:
            self._held[content] = data
            self.used_bytes += len(data)
        self._held.move_to_end(content)
        while self.used_bytes > self.capacity_bytes:
            self.used_bytes -= len(self._held.popitem(last=False)[1])
