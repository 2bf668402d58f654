"""What a process does only once, done before the first request comes: threads, kernels' first calls."""

import numpy as np
import torch
from PIL import Image

from engine.attention.base import Chunk
from engine.attention.triton_kernels.tiles import PART_KEYS
from engine.runner import Runner
from engine.step import EncodeItem
from kvcache.encodings import EncodingId
from kvcache.keys import MediaKey
from kvcache.sequence import BLOCK_SIZE
from models.interface import ForwardBatch
from models.processing.base import MediaLayout, PreparedMedia

PROMPT = 4 * BLOCK_SIZE
LONG_PROMPT = PART_KEYS + BLOCK_SIZE
"""Behind so many tokens a few new ones have a kernel of their own."""
PICTURE_SIDE = 224
SOUND_S = 1


@torch.inference_mode()
def warm_up(runner: Runner, num_blocks: int) -> None:
    """Encode a white picture and silence, run a short prompt, one more token, and two behind a long prompt.
    Nobody can find what that leaves in the first blocks: it is not published. ValueError: as
    `Runner.encode`."""
    processing = runner.model.processing
    if "image" in processing.kinds:
        picture = processing.prepare_image(Image.new("RGB", (PICTURE_SIDE, PICTURE_SIDE), "white"))
        _encode(runner, "image", picture, processing.image_layout(PICTURE_SIDE, PICTURE_SIDE))
    if "audio" in processing.kinds:
        silence = np.zeros(SOUND_S * processing.sampling_rate, np.float32)
        _encode(runner, "audio", processing.prepare_audio(silence), processing.audio_layout(len(silence)))
    room = num_blocks * BLOCK_SIZE
    short, long = min(PROMPT, room - 1), min(LONG_PROMPT, room - 2)
    for start, end in ((0, short), (short, short + 1), (long, long + 2)):
        _forward(runner, start, end)


def _encode(runner: Runner, kind: str, arrays: PreparedMedia, layout: MediaLayout) -> None:
    encoding = EncodingId(b"", MediaKey(bytes(32)))
    runner.encode(EncodeItem(encoding, kind, layout, arrays))
    runner.drop_encodings([encoding])


def _forward(runner: Runner, start: int, end: int) -> None:
    model = runner.model
    planned = runner.attention.plan([Chunk(start, end, range(-(-end // BLOCK_SIZE)))])
    ids = torch.zeros(end - start, dtype=torch.int64, device=model.device)
    positions = torch.from_numpy(model.processing.positions(end, (), ()).ids[:, start:])
    rows = ForwardBatch(ids, positions.to(model.device), ())
    # Read back, since a GPU's faults show only to who waits for it.
    model.logits(model.forward(rows, planned)[-1:]).argmax(-1).tolist()
