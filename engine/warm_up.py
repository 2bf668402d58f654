"""What a process does only once, done before the first request comes: threads, kernels' first calls."""

import numpy as np
import torch
from PIL import Image

from engine.attention.base import BLOCK_SIZE, AttentionBackend, Chunk
from models.interface import EncoderInput, ForwardBatch, ServedModel
from models.processing.base import MediaLayout, PreparedMedia

NUM_TOKENS = 4 * BLOCK_SIZE
PICTURE_SIDE = 224
SOUND_S = 1


@torch.inference_mode()
def warm_up(model: ServedModel, attention: AttentionBackend, num_blocks: int) -> None:
    """Encode a white picture and silence, run a short prompt and one more token. Nobody can find what that
    leaves in the first blocks: it is not published."""
    processing = model.processing
    if "image" in processing.kinds:
        picture = processing.prepare_image(Image.new("RGB", (PICTURE_SIDE, PICTURE_SIDE), "white"))
        _encode(model, "image", picture, processing.image_layout(PICTURE_SIDE, PICTURE_SIDE))
    if "audio" in processing.kinds:
        silence = np.zeros(SOUND_S * processing.sampling_rate, np.float32)
        _encode(model, "audio", processing.prepare_audio(silence), processing.audio_layout(len(silence)))
    num_tokens = min(NUM_TOKENS, num_blocks * BLOCK_SIZE - 1)
    positions = torch.from_numpy(processing.positions(num_tokens + 1, (), ()).ids)
    for start, end in ((0, num_tokens), (num_tokens, num_tokens + 1)):
        planned = attention.plan([Chunk(start, end, range(num_blocks)[: end // BLOCK_SIZE + 1])])
        ids = torch.zeros(end - start, dtype=torch.int64, device=model.device)
        rows = ForwardBatch(ids, positions[:, start:end].to(model.device), ())
        model.logits(model.forward(rows, planned)[-1:]).argmax(-1)


def _encode(model: ServedModel, kind: str, arrays: PreparedMedia, layout: MediaLayout) -> None:
    tensors = {name: torch.from_numpy(array).to(model.device) for name, array in arrays.items()}
    model.encode(kind, [EncoderInput(tensors, layout)])
