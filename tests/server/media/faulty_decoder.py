"""A decoding process in which pictures that begin with such a word do what a hostile file might do."""

import ctypes
import os
import signal
import time
from unittest.mock import patch

from PIL import Image

from server import child_loop
from server.media import decoder, image
from server.media.image import decode_image

LIMIT_S = 0


def main(parent_pid: int, max_bytes: int) -> None:
    decoder.decode_image = _decode
    child_loop.run(decoder.answer, parent_pid, max_bytes, LIMIT_S)


def _decode(encoded: bytes) -> Image.Image:
    word, _, rest = encoded.partition(b"\n")
    match word:
        case b"abort":
            os.abort()
        case b"fault":
            ctypes.string_at(0)
        case b"leave":
            os._exit(0)
        case b"hang":
            if rest:
                os.close(os.open(rest, os.O_CREAT))
            time.sleep(600)
        case b"spin":
            while True:
                pass
        case b"eat":
            with patch.object(image, "_orientation", lambda _: bytes(16 << 30)):
                return decode_image(rest)
        case b"eat in C":  # as a library does that looks for no null
            ctypes.memset(ctypes.CDLL(None).malloc(ctypes.c_size_t(16 << 30)), 1, 1)
        case b"raise":
            raise RuntimeError("our own fault")
        case b"talk":
            print("what libraries say", flush=True)
            os.write(2, b"what else they say")
            encoded = rest
        case b"killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case b"killed once":
            mark, _, encoded = rest.partition(b"\n")
            if not os.path.exists(mark):
                os.close(os.open(mark, os.O_CREAT))
                os.kill(os.getpid(), signal.SIGKILL)
    return decode_image(encoded)
