"""The processes that decode media, as many as there are threads to ask them.

A file at which a C library faults, or that takes too much time or memory, costs its own request the answer
and nobody else theirs. Pixels and samples come back through a pipe: nothing but their number can be wrong
with them then, and no memory is shared that a container may have too little of.
"""

import logging
from dataclasses import asdict
from typing import Any

import numpy as np
from PIL import Image

from models.processing.base import MediaError, Processing
from server.child import Answer, ChildEnded, IsCancelled, NoChild
from server.child_pool import ChildPool
from server.errors import Unavailable
from server.media.image import MOST_BYTES_PER_PIXEL, Header
from server.media.limits import MediaLimits
from server.media.unreadable import damaged, too_slow

logger = logging.getLogger("intarsia")

BYTES_PER_SAMPLE = 8
"""What decoding takes: float32, in blocks and joined."""
_MARGIN_BYTES = 512 << 20
"""For what decoders take besides pixels and samples: FFmpeg makes its tables in pieces of many."""


class Decoders:
    """Thread-safe. Each question is answered as the function of that name in this package would, or with a
    MediaError, or with Unavailable if nothing can be decoded now. Cancelling one ends the process that is at
    it."""

    def __init__(
        self, limits: MediaLimits, processing: Processing, module: str = "server.media.decoder"
    ) -> None:
        """Starts the processes, if the model takes media at all."""
        self._limits, self._sampling_rate = limits, processing.sampling_rate
        pixels = limits.max_image_pixels * MOST_BYTES_PER_PIXEL
        samples = int(limits.max_audio_seconds * processing.sampling_rate) * BYTES_PER_SAMPLE
        max_bytes = max(pixels, samples) + 2 * limits.max_encoded_bytes + _MARGIN_BYTES
        self._pool = ChildPool(module, max_bytes, limits.num_workers if processing.kinds else 0)

    def read_header(self, encoded: bytes, is_cancelled: IsCancelled) -> Header:
        question = {"header": self._limits.max_image_pixels}
        return Header(*self._ask("image", question, encoded, is_cancelled).head)

    def decode_image(self, encoded: bytes, is_cancelled: IsCancelled) -> Image.Image:
        size, pixels = self._ask("image", {"image": None}, encoded, is_cancelled)
        return Image.frombytes("RGB", tuple(size), pixels)

    def decode_audio(self, encoded: bytes, is_cancelled: IsCancelled) -> np.ndarray:
        question = {"audio": [self._sampling_rate, asdict(self._limits)]}
        return self._ask("audio", question, encoded, is_cancelled).body.view(np.float32)

    def close(self) -> None:
        """What is asked later is still answered. May be called again."""
        self._pool.close()

    def _ask(self, kind: str, question: Any, encoded: bytes, is_cancelled: IsCancelled) -> Answer:
        try:
            answer = self._pool.ask(question, encoded, self._limits.decode_timeout_s, is_cancelled)
        except TimeoutError:
            raise too_slow(kind) from None
        except ChildEnded as ended:
            logger.warning("a decoder ended at an %s that it was sent: %s", kind, ended)
            if ended.by_others:  # twice: memory runs out for all, and the file may be as good as any
                raise _unavailable() from None
            raise damaged(kind) from None
        except NoChild as error:
            logger.error("nothing can be decoded: %s", error)
            raise _unavailable() from None
        if isinstance(answer.head, dict):
            raise _failure(answer.head)
        return answer


def _unavailable() -> Unavailable:
    message = "Pictures and sounds can't be read now; try again shortly."
    return Unavailable(message, code="server_unavailable")


def _failure(head: dict[str, str]) -> Exception:
    return RuntimeError(head["fault"]) if "fault" in head else MediaError(head["message"], head["code"])
