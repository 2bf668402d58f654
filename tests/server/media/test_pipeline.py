"""The whole path: what is remembered, shared, bounded and let go."""

import asyncio
import hashlib
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image

from engine.client import EngineDead
from kvcache.keys import media_key
from models.processing.base import MediaError, MediaLayout
from server.errors import Unavailable
from server.media.item import MediaPart, ResolvedMedia
from server.media.limits import MediaLimits
from server.media.pipeline import MediaPipeline
from tests import media_factory as factory


class Processing:
    """A model whose layouts count 8-pixel squares and tenths of seconds; preparing can be held up."""

    kinds = frozenset({"image", "audio"})
    image_options = frozenset({"detail=low"})
    fingerprint = "test 1"
    sampling_rate = 16000

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.layout_gate = threading.Event()
        self.layout_gate.set()
        self.held_width: int | None = None
        """Pictures of this width are held up; None: all."""

    def image_layout(self, width: int, height: int, options: str = "") -> MediaLayout:
        if self.held_width in (None, width):
            assert self.layout_gate.wait(10)
        if min(width, height) < 8:
            raise MediaError("The image is too small.", "image_too_small")
        return MediaLayout(width // 8 * (height // 8), (1, height // 8, width // 8))

    def audio_layout(self, num_samples: int) -> MediaLayout:
        return MediaLayout(num_samples // 1600)

    def prepare_image(self, image: Image.Image, options: str = "") -> dict[str, np.ndarray]:
        assert self.gate.wait(10)
        return {"pixels": np.asarray(image)}

    def prepare_audio(self, samples: np.ndarray) -> dict[str, np.ndarray]:
        return {"samples": samples}


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it never came to that")


def run(
    scenario: Callable[[MediaPipeline, Processing], Awaitable[Any]], limits: MediaLimits | None = None
) -> MediaPipeline:
    """Run it, and check that nothing is held afterwards."""

    async def main() -> MediaPipeline:
        processing = Processing()
        pipeline = MediaPipeline(processing, limits)  # type: ignore[arg-type]
        try:
            await scenario(pipeline, processing)
            await until(lambda: not pipeline.decoded_bytes)
        finally:
            pipeline.close()
        assert not pipeline._sightings
        assert not pipeline._preparations
        assert not pipeline._holders
        return pipeline

    return asyncio.run(main())


PICTURE = factory.encode(factory.gradient(64, 48))
OTHER = factory.encode(factory.gradient(48, 64))
BLACK = factory.encode(factory.solid("black", 64, 48))
SOUND = factory.sound(factory.tone(1.0))


def picture(encoded: bytes = PICTURE, options: str = "") -> MediaPart:
    return MediaPart("image", factory.data_url(encoded), options=options)


async def look(pipeline: MediaPipeline, *parts: MediaPart, namespace: bytes = b"a") -> list[ResolvedMedia]:
    async with pipeline.request(namespace) as media:
        return [await media.resolve(part) for part in parts]


def test_identity_and_layout() -> None:
    async def scenario(pipeline: MediaPipeline, processing: Processing) -> None:
        async with pipeline.request(b"a") as media:
            found = await media.resolve(picture(options="detail=low"))
            digest = hashlib.sha256(PICTURE).digest()
            assert found.key == media_key("image", digest, "test 1", "detail=low")
            assert found.layout == MediaLayout(48, (1, 6, 8))
            assert (await media.prepare(found.key))["pixels"].shape == (48, 64, 3)
            sound = await media.resolve(MediaPart("audio", factory.data_url(SOUND).split(",")[1], "wav"))
            assert sound.layout == MediaLayout(10)
            assert (await media.prepare(sound.key))["samples"].shape == (16000,)

    pipeline = run(scenario)
    assert (pipeline.num_decoded, pipeline.num_prepared, pipeline.num_layout_hits) == (2, 2, 0)


def test_second_identical_request_decodes_nothing() -> None:
    async def scenario(pipeline: MediaPipeline, processing: Processing) -> None:
        first = await look(pipeline, picture(), picture(OTHER))
        assert pipeline.num_decoded == 2
        assert await look(pipeline, picture(), picture(OTHER)) == first

    pipeline = run(scenario)
    assert (pipeline.num_decoded, pipeline.num_prepared, pipeline.num_layout_hits) == (2, 0, 2)


def test_item_kept_from_the_first_look_is_not_decoded_again() -> None:
    async def scenario(pipeline: MediaPipeline, processing: Processing) -> None:
        async with pipeline.request(b"a") as media:
            found = await media.resolve(picture())
            await media.prepare(found.key)
            assert pipeline.num_decoded == 1
            await media.prepare(found.key)
            assert pipeline.num_decoded == 2

    run(scenario)


def test_preparing_after_a_hit_decodes() -> None:
    async def scenario(pipeline: MediaPipeline, processing: Processing) -> None:
        await look(pipeline, picture())
        async with pipeline.request(b"a") as media:
            found = await media.resolve(picture())
            assert (await media.prepare(found.key))["pixels"].shape == (48, 64, 3)

    assert run(scenario).num_decoded == 2


def test_what_differs_never_shares() -> None:
    """Same pixels in another shape, other options, other namespace."""
    tall = Image.frombytes("RGB", (30, 100), factory.gradient(100, 30).tobytes())
    wide = Image.frombytes("RGB", (100, 30), factory.gradient(100, 30).tobytes())

    async def scenario(pipeline: MediaPipeline, processing: Processing) -> None:
        parts = [picture(factory.encode(tall, "BMP")), picture(factory.encode(wide, "BMP"))]
        found = await look(pipeline, *parts, picture(), picture(options="detail=low"))
        assert len({item.key for item in found}) == 4
        await look(pipeline, picture(), namespace=b"b")

    pipeline = run(scenario)
    assert (pipeline.num_decoded, pipeline.num_layout_hits) == (5, 0)


def test_orientation_decides_the_layout() -> None:
    async def scenario(pipeline: MediaPipeline, processing: Processing) -> None:
        turned = factory.with_orientation(factory.gradient(64, 48), 6, "JPEG")
        (found,) = await look(pipeline, picture(turned))
        assert found.layout.grid == (1, 6, 8)

    run(scenario)


def test_single_flight() -> None:
    async def scenario(pipeline: MediaPipeline, processing: Processing) -> None:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(20):
                tasks.create_task(look(pipeline, picture()))

    assert run(scenario).num_decoded == 1


def test_cancelled_leader_leaves_followers_theirs() -> None:
    async def scenario(pipeline: MediaPipeline, processing: Processing) -> None:
        processing.layout_gate.clear()
        leader = asyncio.create_task(look(pipeline, picture()))
        await until(lambda: bool(pipeline._sightings))
        follower = asyncio.create_task(look(pipeline, picture()))
        await asyncio.sleep(0.05)
        leader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leader
        processing.layout_gate.set()
        assert (await follower)[0].layout.num_tokens == 48

    assert run(scenario).num_decoded == 1


def test_cancelled_alone_lets_everything_go() -> None:
    async def scenario(pipeline: MediaPipeline, processing: Processing) -> None:
        processing.layout_gate.clear()
        alone = asyncio.create_task(look(pipeline, picture()))
        await until(lambda: bool(pipeline._sightings))
        await asyncio.sleep(0.02)
        alone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await alone
        assert pipeline.decoded_bytes > 0  # a thread is still at it
        processing.layout_gate.set()

    run(scenario)


def test_preparing_is_shared_and_survives_its_leader() -> None:
    async def scenario(pipeline: MediaPipeline, processing: Processing) -> None:
        async with pipeline.request(b"a") as one, pipeline.request(b"a") as two:
            key = (await one.resolve(picture())).key
            await two.resolve(picture())
            processing.gate.clear()
            leader = asyncio.create_task(one.prepare(key))
            follower = asyncio.create_task(two.prepare(key))
            await asyncio.sleep(0.02)
            leader.cancel()
            processing.gate.set()
            assert (await follower)["pixels"].shape == (48, 64, 3)
            with pytest.raises(asyncio.CancelledError):
                await leader

    pipeline = run(scenario)
    assert (pipeline.num_decoded, pipeline.num_prepared) == (1, 1)


def test_a_refusal_commits_nothing_else() -> None:
    async def scenario(pipeline: MediaPipeline, processing: Processing) -> None:
        with pytest.raises(MediaError):
            await look(pipeline, picture(), picture(PICTURE[:-40]))
        await look(pipeline, picture())
        with pytest.raises(MediaError) as caught:
            await look(pipeline, picture(factory.encode(factory.gradient(4, 4))))
        assert caught.value.code == "image_too_small"

    assert run(scenario).num_layout_hits == 1


def refused(limits: MediaLimits, *parts: MediaPart) -> str:
    codes: list[str] = []

    async def scenario(pipeline: MediaPipeline, processing: Processing) -> None:
        for _ in range(2):
            with pytest.raises(MediaError) as caught:
                await look(pipeline, *parts)
            codes.append(caught.value.code)

    run(scenario, limits)
    assert codes[0] == codes[1], "what is cached must not decide what is refused"
    return codes[0]


SOUND_PART = MediaPart("audio", factory.data_url(SOUND))


@pytest.mark.parametrize(
    ("limits", "parts", "code"),
    [
        (
            MediaLimits(max_request_pixels=3 * 64 * 48 - 1),
            [picture(), picture(OTHER), picture()],
            "image_too_large",
        ),
        (MediaLimits(max_image_pixels=64 * 48 - 1), [picture()], "image_too_large"),
        (MediaLimits(max_encoded_bytes=100), [picture()], "image_file_too_large"),
        (MediaLimits(max_request_encoded_bytes=len(PICTURE)), [picture(), picture()], "image_file_too_large"),
        (MediaLimits(max_request_audio_seconds=1.5), [SOUND_PART, SOUND_PART], "audio_too_long"),
    ],
)
def test_request_limits(limits: MediaLimits, parts: list[MediaPart], code: str) -> None:
    assert refused(limits, *parts) == code


def test_many_large_pictures_are_refused_from_their_headers() -> None:
    async def scenario(pipeline: MediaPipeline, processing: Processing) -> None:
        parts = [picture(factory.one_bit_png(2048, 2040 + number)) for number in range(8)]
        with pytest.raises(MediaError) as caught:
            await look(pipeline, *parts)
        assert caught.value.code == "image_too_large"
        assert pipeline.num_decoded == 2

    run(scenario, MediaLimits(max_request_pixels=9_000_000))


def test_kinds_that_the_model_lacks() -> None:
    async def scenario(pipeline: MediaPipeline, processing: Processing) -> None:
        processing.kinds = frozenset({"audio"})  # type: ignore[misc]
        with pytest.raises(MediaError, match="takes no image"):
            await look(pipeline, picture())

    run(scenario)


def test_tight_memory_decodes_again_instead_of_waiting_forever() -> None:
    """Two requests of two pictures each, room for one picture: all finish."""

    async def whole(pipeline: MediaPipeline, *parts: MediaPart) -> None:
        async with pipeline.request(b"a") as media:
            for found in [await media.resolve(part) for part in parts]:
                await media.prepare(found.key)

    async def scenario(pipeline: MediaPipeline, processing: Processing) -> None:
        async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
            for _ in range(4):
                tasks.create_task(whole(pipeline, picture(), picture(OTHER)))
                tasks.create_task(whole(pipeline, picture(OTHER), picture()))
        assert pipeline.decoded_bytes <= 64 * 48 * 4

    run(scenario, MediaLimits(max_decoded_bytes=64 * 48 * 4))


def test_slow_decoding_is_given_up() -> None:
    async def scenario(pipeline: MediaPipeline, processing: Processing) -> None:
        processing.layout_gate.clear()
        with pytest.raises(MediaError, match="too long to decode"):
            await look(pipeline, picture())
        processing.layout_gate.set()

    run(scenario, MediaLimits(decode_timeout_s=0.2))


def test_a_picture_that_is_never_done_does_not_stop_the_others() -> None:
    async def scenario(pipeline: MediaPipeline, processing: Processing) -> None:
        processing.held_width = 8
        processing.layout_gate.clear()
        workers = pipeline._workers
        workers.limit_s = 0.1
        for shade in range(2):
            with pytest.raises(MediaError, match="too long to decode"):
                await look(pipeline, picture(factory.encode(factory.solid((shade, 0, 0), 8, 8))))
        workers.replace_overrun()
        workers.limit_s = 250  # a busy machine may need more than that for what is good
        await look(pipeline, picture())
        processing.layout_gate.set()

    assert run(scenario, MediaLimits(num_workers=1)).num_decoded == 1


def test_held_workers_and_held_room_are_503() -> None:
    """Before the answer begins as after."""

    async def scenario(pipeline: MediaPipeline, processing: Processing) -> None:
        async with pipeline.request(b"a") as media:
            found = await media.resolve(picture())
            processing.layout_gate.clear()
            holding = asyncio.create_task(look(pipeline, picture(OTHER)))
            await until(lambda: bool(pipeline._sightings))
            with pytest.raises(Unavailable):
                await look(pipeline, picture(BLACK))
            with pytest.raises(MediaError) as caught:
                await media.prepare(found.key)
            assert caught.value.code == "overloaded", "the engine's word for 503"
            processing.layout_gate.set()
            await holding

    run(scenario, MediaLimits(max_wait_s=0.1, num_workers=1))
    run(scenario, MediaLimits(max_wait_s=0.1, num_workers=3, max_decoded_bytes=64 * 48 * 4))


def test_layouts_are_bounded() -> None:
    async def scenario(pipeline: MediaPipeline, processing: Processing) -> None:
        for shade in range(12):
            await look(pipeline, picture(factory.encode(factory.solid((shade, 0, 0), 8, 8))))
        assert len(pipeline._layouts) == 5

    run(scenario, MediaLimits(max_layouts=5))


def test_warm_megabyte_is_cheap() -> None:
    """Base64, sha256 and lookups of a picture of 1 MiB: under 3 ms of CPU."""
    part = picture(factory.encode(factory.noise(591, 591)))

    async def scenario(pipeline: MediaPipeline, processing: Processing) -> None:
        await look(pipeline, part)
        costs = []
        for _ in range(10):
            begin = time.process_time()
            await look(pipeline, part)
            costs.append(time.process_time() - begin)
        assert min(costs) < 0.003

    assert run(scenario).num_decoded == 1


def test_event_loop_stays_free_while_decoding() -> None:
    part = picture(factory.encode(factory.noise(1500, 1500)))

    async def scenario(pipeline: MediaPipeline, processing: Processing) -> None:
        longest, looking = 0.0, asyncio.create_task(look(pipeline, part))
        while not looking.done():
            begin = time.thread_time()
            await asyncio.sleep(0.001)
            longest = max(longest, time.thread_time() - begin)
        assert longest < 0.05

    run(scenario)


def test_a_closed_pipeline_starts_nothing_more() -> None:
    async def scenario(pipeline: MediaPipeline, processing: Processing) -> None:
        pipeline.close()
        with pytest.raises(EngineDead):
            await look(pipeline, picture())

    run(scenario)
