from itertools import product

import pytest

from kvcache.block_keys import block_key
from kvcache.keys import MediaKey, content_digest, frame, media_key
from kvcache.spans import MediaSpan

CAT, DOG = MediaKey(b"c" * 32), MediaKey(b"d" * 32)


def test_frame_tells_apart_what_joining_would_not():
    lists = [(b"ab",), (b"a", b"b"), (b"", b"ab"), (b"ab", b""), (), (b"",), (b"", b"")]
    assert len({frame(*parts) for parts in lists}) == len(lists)


def test_media_key_depends_on_each_part_and_on_their_borders():
    cat, dog = content_digest(b"cat"), content_digest(b"dog")
    keys = {
        media_key(*parts) for parts in product(["image", "audio"], [cat, dog], ["p", "po"], ["", "o", "oo"])
    }
    assert len(keys) == 2 * 2 * 2 * 3
    assert {len(key) for key in keys} == {32}


def test_keys_stay_the_same_from_run_to_run():
    """Tiers on disk outlive the process: a change of these values needs a new scheme name."""
    assert media_key("image", content_digest(b"cat"), "p").hex()[:16] == "73c560311c70fc43"
    assert block_key(None, (1, 2), [MediaSpan(0, 1, CAT, 5)], b"n").hex()[:16] == "a0246e3e76246631"


@pytest.mark.parametrize(
    "other",
    [
        {"ids": (0, 0, 0, 2)},
        {"parent": block_key(None, (1,), (), b"")},
        {"namespace": b"n"},
        {"spans": ()},
        {"spans": [MediaSpan(0, 3, DOG, 5)]},
        {"spans": [MediaSpan(0, 3, CAT, 6)]},
        {"spans": [MediaSpan(1, 3, CAT, 5)]},
        {"spans": [MediaSpan(0, 2, CAT, 5)]},
        {"spans": [MediaSpan(0, 1, CAT, 5), MediaSpan(1, 3, CAT, 6)]},
    ],
    ids=str,
)
def test_block_key_depends_on(other):
    base = {"parent": None, "ids": (0, 0, 0, 1), "spans": [MediaSpan(0, 3, CAT, 5)], "namespace": b""}
    assert block_key(**base) == block_key(**base)
    assert block_key(**base | other) != block_key(**base)


def test_hash_bits_shorten_the_key():
    key = block_key(None, (1, 2), (), b"")
    assert len(key) == 16
    assert block_key(None, (1, 2), (), b"", hash_bits=8) == key[:1]
