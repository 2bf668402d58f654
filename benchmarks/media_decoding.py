"""What it costs to decode media in processes of their own: processor time for each, beside the same in one
process.

    python -m benchmarks.media_decoding
"""

import io
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

import numpy as np
import soundfile
from PIL import Image

from server.media.audio import decode_audio
from server.media.decoders import Decoders
from server.media.image import decode_image, read_header
from server.media.limits import MediaLimits

RATE, ROUNDS, WARM_UPS = 16_000, 40, 5
LIMITS = MediaLimits(num_workers=1)


def _go_on() -> bool:
    return False


def picture(width: int, height: int, quality: int) -> bytes:
    """A JPEG of soft shapes with some grain, as of a camera."""
    random = np.random.default_rng(0)
    coarse = Image.fromarray(random.integers(0, 256, (height // 64 + 2, width // 64 + 2, 3), np.uint8))
    soft = np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC), np.int16)
    grainy = np.clip(soft + random.integers(-6, 7, soft.shape, np.int16), 0, 255).astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(grainy).save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


def sound(seconds: float, rate: int, format: str) -> bytes:
    buffer = io.BytesIO()
    wave = np.random.default_rng(0).normal(0, 0.1, int(seconds * rate)).astype(np.float32)
    soundfile.write(buffer, wave, rate, format=format)
    return buffer.getvalue()


def child_seconds(decoders: Decoders) -> float:
    (child,) = decoders._pool._idle
    return int(Path(f"/proc/{child._process.pid}/schedstat").read_text().split()[0]) / 1e9


def cost_ms(work: Callable[[], Any], elsewhere: Callable[[], float] = lambda: 0.0) -> tuple[float, float]:
    """Medians: in this process, elsewhere."""
    costs = []
    for _ in range(ROUNDS + WARM_UPS):
        begin, begin_elsewhere = time.process_time(), elsewhere()
        work()
        costs.append((time.process_time() - begin, elsewhere() - begin_elsewhere))
    here, there = zip(*costs[WARM_UPS:], strict=True)
    return 1000 * median(here), 1000 * median(there)


def main() -> None:
    processing: Any = SimpleNamespace(kinds={"image", "audio"}, sampling_rate=RATE)
    decoders = Decoders(LIMITS, processing)
    items = {
        "JPEG, 1024x768": picture(1024, 768, 80),
        "JPEG, 12 megapixels": picture(4000, 3000, 85),
        "WAV, 32 s at 16 kHz": sound(32, 16_000, "WAV"),
        "WAV, 11 s at 48 kHz": sound(11, 48_000, "WAV"),
        "Ogg, 32 s": sound(32, 16_000, "OGG"),
    }
    print("ms of processor time        KB   alone | server + decoder = both")
    for name, encoded in items.items():

        def alone(encoded: bytes = encoded) -> Any:
            if encoded[:2] != b"\xff\xd8":
                return decode_audio(encoded, RATE, LIMITS)
            read_header(encoded, LIMITS.max_image_pixels)
            return decode_image(encoded)

        def apart(encoded: bytes = encoded) -> Any:
            if encoded[:2] != b"\xff\xd8":
                return decoders.decode_audio(encoded, _go_on)
            decoders.read_header(encoded, _go_on)
            return decoders.decode_image(encoded, _go_on)

        assert np.array_equal(np.asarray(alone()), np.asarray(apart()))
        before = cost_ms(alone)[0]
        here, there = cost_ms(apart, lambda: child_seconds(decoders))
        kb = len(encoded) // 1000
        print(f"{name:24} {kb:6} {before:7.1f} | {here:6.1f} + {there:7.1f} = {here + there:.1f}")
    decoders.close()


if __name__ == "__main__":
    main()
