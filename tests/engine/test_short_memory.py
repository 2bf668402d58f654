"""Where memory is short, whoever asks too much of it is told to come again, and nobody else notices."""

import logging
import weakref

import pytest
import torch

from engine.memory import is_out_of_memory
from tests.engine.arithmetic import DeviceLost
from tests.engine.house import House, generate, media_item


class Activations:
    """What a step holds while it runs."""


def test_what_a_failed_step_held_is_gone_before_another_is_tried(monkeypatch, caplog) -> None:
    """Else the halves run beside it, and run out too."""
    caplog.set_level(logging.CRITICAL, "engine.execution")  # pytest would keep the exceptions logged
    house = House()
    execute, held = house.runner.execute, []

    def short(rows):
        assert not any(reference() for reference in held)
        activations = Activations()
        held.append(weakref.ref(activations))
        if any(row.sequence.request.request_id == "large" for row in rows):
            try:
                raise MemoryError
            except MemoryError:
                raise torch.OutOfMemoryError from None
        return execute(rows)

    monkeypatch.setattr(house.runner, "execute", short)
    names = ("a", "b", "large", "c", "d")
    for name in names:
        house.add(generate(name, [2, names.index(name), 5]))
    house.run()
    assert len(held) > 4
    assert house.failures.keys() == {"large"}


def test_what_a_failed_encoder_held_is_gone_before_the_next_runs(monkeypatch, caplog) -> None:
    caplog.set_level(logging.CRITICAL, "engine.execution")
    house = House()
    encode, held = house.runner.encode, []

    def short(item):
        assert not any(reference() for reference in held)
        activations = Activations()
        held.append(weakref.ref(activations))
        if item.layout.num_tokens > 4:
            raise MemoryError
        encode(item)

    monkeypatch.setattr(house.runner, "encode", short)
    for name, size in (("large", 9), ("small", 3), ("larger", 10), ("smaller", 2)):
        house.add(generate(name, [2, media_item(name, size), 5]))
    house.run()
    house.check_all_done()
    assert len(held) == 4
    assert house.failures.keys() == {"large", "larger"}


def test_short_memory_fails_only_whoever_asks_too_much_and_says_come_again(monkeypatch) -> None:
    house = House()
    execute = house.runner.execute

    def short(rows):
        if any(row.sequence.request.request_id == "large" for row in rows):
            raise MemoryError
        return execute(rows)

    monkeypatch.setattr(house.runner, "execute", short)
    for name in ("a", "large", "b"):
        house.add(generate(name, [2, len(name), 5]))
    house.run()
    house.check_all_done()
    assert house.failures.keys() == {"large"}
    assert house.failures["large"].code == "overloaded"


def test_what_torch_raises_when_memory_is_short_is_known_for_what_it_is() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(10**16)
    assert is_out_of_memory(caught.value)
    assert not is_out_of_memory(RuntimeError("something else"))


def test_short_memory_in_the_encoder_is_not_the_medias_fault() -> None:
    house = House()
    house.runner.raise_in_encode = True
    house.add(generate("seen", [2, 3, media_item("a", 4), 5]))
    house.add(generate("text", [2, 3, 4]))
    house.run()
    assert {name: failure.code for name, failure in house.failures.items()} == {"seen": "overloaded"}
    assert "text" not in house.failures


def test_short_memory_for_copies_fails_only_whoever_begins_with_one() -> None:
    house = House()
    house.add(generate("first", [2, 3, 4, 5, 6, 7]))
    house.run()
    house.runner.raise_in_copy = MemoryError()
    house.add(generate("other", [9, 8, 7, 6, 5, 4]))
    house.add(generate("alike", [2, 3, 4, 5, 6, 8]))
    house.run()
    assert {name: failure.code for name, failure in house.failures.items()} == {"alike": "overloaded"}
    house.check_all_done()
    house.runner.raise_in_copy = DeviceLost()
    house.add(generate("later", [2, 3, 4, 5, 6, 8]))
    with pytest.raises(DeviceLost):
        house.run()
