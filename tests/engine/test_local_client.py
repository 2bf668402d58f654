"""What a client promises, over the arithmetic model on a thread."""

import asyncio
import threading
import time

import pytest
from msgspec import structs

from engine.client import EngineDead, RequestError
from engine.grammar import GrammarCompiler
from engine.limits import Limits
from engine.local_client import LocalClient
from engine.loop import Engine
from engine.messages import EngineInfo, Grammar
from kvcache.encodings import EncodingCache
from kvcache.manager import KVCacheManager
from models.processing.base import MediaError
from tests.engine.arithmetic import (
    BLOCK_SIZE,
    VOCAB_SIZE,
    ArithmeticProcessing,
    ArithmeticRunner,
    DeviceLost,
    lone_run,
    prepared,
)
from tests.engine.house import generate, media_item

NUM_BLOCKS = 64
IMAGE = media_item("a", 6)


class Rig:
    """slow_s: how long a step takes."""

    def __init__(self) -> None:
        self.runner = ArithmeticRunner(NUM_BLOCKS)
        self.slow_s = 0.0
        self.engine: Engine

    def make(self, outbox):
        limits = Limits(VOCAB_SIZE, 1000, NUM_BLOCKS * BLOCK_SIZE, 64, 8, 64, 64, 1000, 1000)
        execute = self.runner.execute

        def slowly(rows):
            time.sleep(self.slow_s)
            return execute(rows)

        self.runner.execute = slowly
        self.engine = Engine(
            self.runner,
            KVCacheManager(NUM_BLOCKS, BLOCK_SIZE),
            EncodingCache(64),
            ArithmeticProcessing(),
            limits,
            GrammarCompiler(lambda: None),
            outbox.emit,
            flush=outbox.flush,
            fatal=(DeviceLost,),
            debug=True,
        )
        return self.engine, EngineInfo(
            "a", "int", "cpu", "none", 1000, NUM_BLOCKS, BLOCK_SIZE, 64, VOCAB_SIZE
        )


def run(scenario, slow_s: float = 0.0) -> None:
    async def main() -> None:
        rig = Rig()
        rig.slow_s = slow_s
        client = await LocalClient.start(rig.make)
        try:
            await asyncio.wait_for(scenario(client, rig), 20)
        finally:
            await client.close()

    asyncio.run(main())


async def no_media(key: bytes):
    raise AssertionError("asked for media")


async def media(key: bytes):
    return prepared(key)


async def collect(events) -> list[int]:
    return [token async for event in events for token in event.token_ids]


async def until(condition) -> None:
    while not condition():  # noqa: ASYNC110 (the condition lies on another thread)
        await asyncio.sleep(0.005)


def is_empty(client: LocalClient) -> bool:
    stats = client.stats
    return stats.num_blocks == stats.num_free_blocks == NUM_BLOCKS and not stats.num_running


def test_nothing_of_a_closed_engine_goes_on() -> None:
    async def main() -> None:
        rig = Rig()
        client = await LocalClient.start(rig.make)
        request = structs.replace(generate("r", [2]), grammar=Grammar("regex", "a"))
        with pytest.raises(RequestError):  # the rig has no vocabulary
            await collect(client.generate(request, no_media))
        assert _threads() >= {"engine", "grammar"}
        await client.close()
        await until(lambda: not _threads() & {"engine", "grammar"})

    asyncio.run(asyncio.wait_for(main(), 20))


def _threads() -> set[str]:
    return {thread.name.partition("_")[0] for thread in threading.enumerate()}


def test_many_at_once_get_their_own_tokens() -> None:
    async def scenario(client, rig) -> None:
        requests = [generate(f"r{i}", [2, IMAGE, i], max_tokens=9) for i in range(20)]
        answers = await asyncio.gather(*[collect(client.generate(r, media)) for r in requests])
        assert answers == [lone_run(request, 0, 9) for request in requests]
        await until(lambda: is_empty(client))
        assert client.stats.num_finished == 20
        assert client.stats.num_encoder_runs == 1
        assert client.seconds_since_progress() < 1.7

    run(scenario)


def test_all_choices_are_delivered() -> None:
    async def scenario(client, rig) -> None:
        request = generate("r", [2, 3], max_tokens=3, choices=3)
        events = [event async for event in client.generate(request, no_media)]
        for choice in range(3):
            tokens = [token for event in events if event.choice == choice for token in event.token_ids]
            assert tokens == lone_run(request, choice, 3)
        assert sum(event.finish_reason == "length" for event in events) == 3

    run(scenario)


def test_a_refusal_is_raised_and_media_errors_carry_their_code() -> None:
    async def broken(key: bytes):
        raise MediaError("no picture", "invalid_image")

    async def bug(key: bytes):
        raise KeyError("secret")

    async def scenario(client, rig) -> None:
        with pytest.raises(RequestError) as refusal:
            await collect(client.generate(generate("r", [97]), no_media))
        assert refusal.value.param == "prompt"
        with pytest.raises(RequestError) as refusal:
            await collect(client.generate(generate("s", [2, IMAGE, 3]), broken))
        assert refusal.value.code == "invalid_image"
        with pytest.raises(RequestError) as refusal:
            await collect(client.generate(generate("t", [2, IMAGE, 3]), bug))
        assert refusal.value.code == "internal"
        assert "secret" not in str(refusal.value)
        await until(lambda: is_empty(client))

    run(scenario)


def test_closing_the_iterator_aborts() -> None:
    async def scenario(client, rig) -> None:
        events = client.generate(generate("r", [2, 3], max_tokens=200), no_media)
        await anext(events)
        await events.aclose()
        await until(lambda: client.stats.num_aborted == 1 and is_empty(client))
        assert await collect(client.generate(generate("r", [2, 3]), no_media)), "its id is free again"

    run(scenario, slow_s=0.005)


def test_cancelling_the_reader_aborts_and_cancels_its_media() -> None:
    cancelled = []

    async def slow_media(key: bytes):
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            cancelled.append(key)
            raise

    async def scenario(client, rig) -> None:
        leader = asyncio.create_task(collect(client.generate(generate("leader", [2, IMAGE, 3]), slow_media)))
        await until(lambda: client.stats.num_media_requested == 1)
        request = generate("follower", [2, IMAGE, 3])
        follower = asyncio.create_task(collect(client.generate(request, media)))
        await asyncio.sleep(0.05)
        leader.cancel()
        assert await follower == lone_run(request, 0, 4)
        assert cancelled == [IMAGE.key]
        await until(lambda: is_empty(client))

    run(scenario)


def test_abort_by_id_ends_the_iterator_and_late_aborts_do_nothing() -> None:
    async def scenario(client, rig) -> None:
        events = client.generate(generate("r", [2, 3], max_tokens=200), no_media)
        await anext(events)
        client.abort("r")
        with pytest.raises(RequestError):
            await collect(events)
        client.abort("r")
        client.abort("nobody")
        await until(lambda: client.stats.num_aborted == 1 and is_empty(client))

    run(scenario, slow_s=0.005)


def test_a_stopped_choice_is_computed_no_more_and_the_others_end_the_iterator() -> None:
    async def scenario(client, rig) -> None:
        request = generate("r", [2, 3], max_tokens=30, choices=3)
        tokens: dict[int, list[int]] = {0: [], 1: [], 2: []}
        async for event in client.generate(request, no_media):
            tokens[event.choice] += event.token_ids
            if event.choice == 1 and len(tokens[1]) == 2:
                client.stop_choice("r", 1)
                client.stop_choice("r", 1)
        assert [len(tokens[choice]) for choice in range(3)] == [30, 2, 30]
        assert tokens[2] == lone_run(request, 2, 30)
        client.stop_choice("r", 0)
        await until(lambda: is_empty(client))
        assert client.stats.num_generated_tokens < 80
        assert (client.stats.num_finished, client.stats.num_aborted) == (1, 0)

    run(scenario, slow_s=0.003)


def test_a_request_whose_choices_were_all_stopped_has_finished() -> None:
    """As at a stop string, which only the server sees."""

    async def scenario(client, rig) -> None:
        events = client.generate(generate("r", [2, 3], max_tokens=200), no_media)
        await anext(events)
        client.stop_choice("r", 0)
        await events.aclose()
        await until(lambda: client.stats.num_finished == 1 and is_empty(client))
        assert client.stats.num_aborted == 0

    run(scenario, slow_s=0.003)


def test_an_id_can_be_open_only_once() -> None:
    async def scenario(client, rig) -> None:
        events = client.generate(generate("r", [2, 3], max_tokens=50), no_media)
        await anext(events)
        with pytest.raises(RequestError, match="in use"):
            await anext(client.generate(generate("r", [4]), no_media))
        await collect(events)

    run(scenario)


def test_a_lost_device_ends_everything_open_and_all_that_comes() -> None:
    async def scenario(client, rig) -> None:
        events = client.generate(generate("r", [2, 3], max_tokens=200), no_media)
        await anext(events)
        rig.runner.device_lost = True
        with pytest.raises(EngineDead):
            await collect(events)
        assert not client.alive
        with pytest.raises(EngineDead):
            await collect(client.generate(generate("s", [2]), no_media))

    run(scenario, slow_s=0.005)


def test_waiting_for_media_is_progress_but_hanging_is_not() -> None:
    async def scenario(client, rig) -> None:
        async def never(key: bytes):
            await asyncio.sleep(30)

        waiting = asyncio.create_task(collect(client.generate(generate("r", [IMAGE, 3]), never)))
        await asyncio.sleep(2.5)
        assert client.seconds_since_progress() < 1.7
        rig.slow_s = 2.5
        hanging = asyncio.create_task(collect(client.generate(generate("s", [2]), no_media)))
        await asyncio.sleep(2.3)
        assert client.seconds_since_progress() > 1.7
        waiting.cancel()
        hanging.cancel()
        rig.slow_s = 0

    run(scenario)


def test_what_making_the_engine_raises_is_raised() -> None:
    def make(outbox):
        raise ValueError("no such model")

    async def main() -> None:
        with pytest.raises(ValueError, match="no such model"):
            await LocalClient.start(make)

    asyncio.run(main())
