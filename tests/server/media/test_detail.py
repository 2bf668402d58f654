"""Whether another detail is another picture is for the model to say."""

import asyncio

import pytest

from models.checkpoint import Checkpoint
from models.registry import load_processing
from server.conversation import image_ref
from server.media.item import MediaPart
from server.media.pipeline import MediaPipeline
from tests import media_factory as factory
from tests.proof.families import directory

URL = factory.data_url(factory.encode(factory.gradient(64, 48)))


def key(pipeline: MediaPipeline, detail: str) -> bytes:
    async def resolve() -> bytes:
        ref = image_ref(URL, detail, "messages")
        async with pipeline.request(b"a") as media:
            found = await media.resolve(MediaPart(ref.kind, ref.source, ref.format, ref.options))
            assert await media.prepare(found.key)
            return found.key

    return asyncio.run(resolve())


@pytest.mark.parametrize(
    ("family", "num_keys"),
    [("llava", 1), ("gemma3", 1), ("qwen2_vl", 2), ("qwen2_5_vl", 2), ("qwen3_vl", 2), ("qwen2_5_omni", 2)],
)
def test_a_detail_is_another_picture_only_where_the_model_heeds_it(family: str, num_keys: int) -> None:
    processing = load_processing(Checkpoint.open(str(directory(family))))
    keys = set()
    for detail in ("auto", "low", "high"):
        pipeline = MediaPipeline(processing)
        keys.add(key(pipeline, detail))
        pipeline.close()
    assert len(keys) == num_keys
