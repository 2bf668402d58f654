"""Names that clients give to media: bound to tenant and content, held under a budget."""

from dataclasses import replace

import pytest

from models.processing.base import MediaError
from server.media.item import MediaPart, ResolvedMedia
from server.media.limits import MediaLimits
from server.media.pipeline import MediaPipeline
from tests import media_factory as factory
from tests.server.media.test_pipeline import OTHER, PICTURE, SOUND, Processing, run


def named(encoded: bytes | None, uuid: str = "cat", options: str = "", empty: str = "") -> MediaPart:
    return MediaPart("image", factory.data_url(encoded) if encoded else empty, options=options, uuid=uuid)


async def resolve(pipeline: MediaPipeline, part: MediaPart, namespace: bytes = b"a") -> ResolvedMedia:
    async with pipeline.request(namespace) as media:
        return await media.resolve(part)


async def refusal(pipeline: MediaPipeline, part: MediaPart, namespace: bytes = b"a") -> str:
    with pytest.raises(MediaError) as caught:
        await resolve(pipeline, part, namespace)
    return caught.value.code


def test_a_name_is_bound_to_its_tenant_and_content() -> None:
    async def scenario(pipeline: MediaPipeline, _: Processing) -> None:
        first = await resolve(pipeline, named(PICTURE))
        assert await resolve(pipeline, named(None)) == first
        assert await resolve(pipeline, named(PICTURE)) == first
        assert await refusal(pipeline, named(OTHER)) == "media_uuid_conflict"
        assert await resolve(pipeline, named(None)) == first, "a refused part changes nothing"
        assert await refusal(pipeline, named(None), b"another tenant") == "media_uuid_not_found"
        other = await resolve(pipeline, named(OTHER), b"another tenant")
        assert other.key != first.key
        assert await resolve(pipeline, named(None)) == first

    run(scenario)


@pytest.mark.parametrize("empty", ["", "data:image/png;base64,", "DATA:;base64,"])
def test_without_data_means_empty_in_any_spelling(empty: str) -> None:
    async def scenario(pipeline: MediaPipeline, _: Processing) -> None:
        first = await resolve(pipeline, named(PICTURE))
        assert await resolve(pipeline, named(None, empty=empty)) == first
        assert await refusal(pipeline, MediaPart("image", empty)) in ("empty_image_file", "invalid_image_url")

    run(scenario)


def test_the_arrays_of_what_is_only_named_can_be_prepared() -> None:
    async def scenario(pipeline: MediaPipeline, processing: Processing) -> None:
        await resolve(pipeline, named(PICTURE))
        async with pipeline.request(b"a") as media:
            item = await media.resolve(named(None))
            again = await media.prepare(item.key)
        async with pipeline.request(b"b") as media:
            sent = await media.prepare((await media.resolve(named(PICTURE, "x"))).key)
        assert {name: array.tobytes() for name, array in again.items()} == {
            name: array.tobytes() for name, array in sent.items()
        }

    run(scenario)


def test_options_are_the_parts_own() -> None:
    async def scenario(pipeline: MediaPipeline, _: Processing) -> None:
        full = await resolve(pipeline, named(PICTURE))
        low = await resolve(pipeline, named(None, options="detail=low"))
        assert low == await resolve(pipeline, replace_uuid(named(PICTURE, options="detail=low")))
        assert low.key != full.key

    run(scenario)


def replace_uuid(part: MediaPart) -> MediaPart:
    return part._replace(uuid=None)


def test_pictures_and_sounds_have_names_of_their_own() -> None:
    async def scenario(pipeline: MediaPipeline, _: Processing) -> None:
        await resolve(pipeline, named(PICTURE))
        sound = MediaPart("audio", "", uuid="cat")
        assert await refusal(pipeline, sound) == "media_uuid_not_found"
        given = sound._replace(source=factory.data_url(SOUND, "audio/wav"))
        assert await resolve(pipeline, given) == await resolve(pipeline, sound)

    run(scenario)


def test_what_can_not_be_read_is_not_remembered() -> None:
    async def scenario(pipeline: MediaPipeline, _: Processing) -> None:
        assert await refusal(pipeline, named(PICTURE[:60])) == "image_parse_error"
        await resolve(pipeline, named(PICTURE))

    run(scenario)


def test_bytes_are_held_under_a_budget_and_bindings_outlive_them() -> None:
    limits = MediaLimits(max_named_bytes=len(PICTURE) + len(OTHER) - 1)

    async def scenario(pipeline: MediaPipeline, _: Processing) -> None:
        await resolve(pipeline, named(PICTURE))
        await resolve(pipeline, named(PICTURE, "the same under another name"))
        assert pipeline._named.used_bytes == len(PICTURE), "one content is held once"
        await resolve(pipeline, named(OTHER, "dog"))
        assert pipeline._named.used_bytes == len(OTHER)
        assert await refusal(pipeline, named(None)) == "media_uuid_not_found"
        assert await refusal(pipeline, named(OTHER)) == "media_uuid_conflict"
        await resolve(pipeline, named(PICTURE))
        await resolve(pipeline, named(None))

    run(scenario, limits)


def test_names_are_bounded() -> None:
    limits = replace(MediaLimits(), max_names=3)

    async def scenario(pipeline: MediaPipeline, _: Processing) -> None:
        for number in range(10):
            await resolve(pipeline, named(PICTURE, str(number)))
        assert len(pipeline._named._digests) == 3
        await resolve(pipeline, named(None, "9"))
        assert await refusal(pipeline, named(None, "0")) == "media_uuid_not_found"

    run(scenario, limits)


def test_a_named_item_counts_against_its_request() -> None:
    limits = MediaLimits(max_request_encoded_bytes=2 * len(PICTURE) + 8)

    async def scenario(pipeline: MediaPipeline, _: Processing) -> None:
        await resolve(pipeline, named(PICTURE))
        async with pipeline.request(b"a") as media:
            await media.resolve(named(None))
            await media.resolve(named(None))
            with pytest.raises(MediaError):
                await media.resolve(named(None))

    run(scenario, limits)
