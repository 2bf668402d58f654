"""The process in which media are decoded: what may be hostile reaches no C library in the server's own.

It keeps nothing from one question to the next. The answer to one is about the picture or sound that came with
it, or tells why there is none.
"""

import traceback
from typing import Any

from PIL import Image, WebPImagePlugin  # noqa: F401  (else the first WebP brings in sixty other formats)

from engine.allocator import keep_some_freed_memory
from models.processing.base import MediaError
from server import child_loop
from server.media.audio import decode_audio
from server.media.image import decode_image, read_header
from server.media.limits import MediaLimits

_PIECE_BYTES = 1 << 20
"""Of pixels at once, as much as a pipe holds: a copy of a whole large picture costs three times as much."""
LIMIT_S = 60
"""Of processor time, should nobody be left to end it."""


def main(parent_pid: int, max_bytes: int) -> None:
    Image.preinit()
    keep_some_freed_memory()
    child_loop.run(answer, parent_pid, max_bytes, LIMIT_S)


def answer(question: dict[str, Any], encoded: bytes) -> child_loop.Answer:
    """question: {"header": max_pixels}, {"image": null} or {"audio": [sampling_rate, limits]}."""
    ((task, terms),) = question.items()
    try:
        match task:
            case "header":
                return child_loop.Answer(read_header(encoded, terms))
            case "image":
                return _pixels(decode_image(encoded))
            case _:
                sampling_rate, limits = terms
                samples = decode_audio(encoded, sampling_rate, MediaLimits(**limits))
                return child_loop.Answer(None, samples.nbytes, [samples.data.cast("B")])
    except MediaError as error:
        return child_loop.Answer({"message": str(error), "code": error.code})
    except Exception:
        return child_loop.Answer({"fault": traceback.format_exc()})


def _pixels(image: Image.Image) -> child_loop.Answer:
    """Its size, and three bytes for each pixel."""
    num_rows = max(1, _PIECE_BYTES // (3 * image.width))
    strips = (
        image.crop((0, top, image.width, min(top + num_rows, image.height))).tobytes()
        for top in range(0, image.height, num_rows)
    )
    return child_loop.Answer(image.size, 3 * image.width * image.height, strips)
