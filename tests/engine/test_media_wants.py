"""Flights of prepared tensors, where no request shows the case."""

import numpy as np
import pytest

from engine.media_wants import MediaWants
from engine.messages import MediaNeeded
from kvcache.encodings import EncodingId
from kvcache.keys import MediaKey
from tests.engine.house import media_item
from tests.engine.sequences import make_sequence

ITEM = media_item("a", 4)
PICTURE = EncodingId(b"", MediaKey(ITEM.key))
OTHER = EncodingId(b"", MediaKey(media_item("b", 4).key))
ARRAYS = {"pixels": np.zeros(16, np.uint8)}


def wants(budget_bytes: int = 100) -> tuple[MediaWants, list[MediaNeeded]]:
    asked: list[MediaNeeded] = []
    return MediaWants(budget_bytes, bytes_per_token=10, ask=asked.append), asked


def test_tensors_that_come_after_their_span_was_found_are_dropped() -> None:
    flights, asked = wants()
    one = make_sequence([1])
    flights.want(one, PICTURE, ITEM, urgent=False)
    flights.retain(one, ())
    flights.check_integrity()
    assert len(asked) == 1
    flights.put(PICTURE, ARRAYS)
    assert not flights.arrived(PICTURE)
    assert len(flights) == 0
    flights.check_integrity()


def test_tensors_are_taken_only_when_they_are_here() -> None:
    flights, _ = wants()
    flights.want(make_sequence([1]), PICTURE, ITEM, urgent=False)
    with pytest.raises(KeyError):
        flights.take(PICTURE)
    flights.put(PICTURE, ARRAYS)
    assert flights.take(PICTURE) == (ITEM, ARRAYS)
    flights.check_integrity()


def test_beyond_the_budget_only_what_is_urgent_is_asked_for() -> None:
    flights, asked = wants(budget_bytes=40)
    one = make_sequence([1])
    flights.want(one, PICTURE, ITEM, urgent=False)
    assert not flights.has_room
    flights.want(one, OTHER, ITEM, urgent=False)
    assert (len(flights), len(asked)) == (1, 1)
    flights.want(one, OTHER, ITEM, urgent=True)
    assert (len(flights), len(asked)) == (2, 2)
    flights.check_integrity()
