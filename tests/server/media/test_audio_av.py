"""Containers of video's kind: what they claim does not decide how much memory is taken."""

import io
import os
import struct
from pathlib import Path

import numpy as np
import pytest

from models.processing.base import MediaError
from server.media.audio import decode_audio
from server.media.audio_av import MAX_TRACKS
from server.media.limits import MediaLimits
from tests import media_factory as factory

av = pytest.importorskip("av")


def m4a(num_tracks: int = 1) -> bytes:
    buffer = io.BytesIO()
    wave = (factory.tone(0.5).T * 20000).astype(np.int16)
    with av.open(buffer, "w", format="mp4") as container:
        tracks = [container.add_stream("aac", rate=16000, layout="mono") for _ in range(num_tracks)]
        for track in tracks:
            frame = av.AudioFrame.from_ndarray(wave, format="s16", layout="mono")
            frame.sample_rate = 16000
            for packet in [*track.encode(frame), *track.encode(None)]:
                container.mux(packet)
    return buffer.getvalue()


def claiming(num_samples: int) -> bytes:
    """All of one byte, all in one chunk, all of one length: three numbers."""
    encoded = bytearray(m4a())
    sizes, chunks, times = (encoded.index(name) for name in (b"stsz", b"stsc", b"stts"))
    encoded[sizes + 8 : sizes + 16] = struct.pack(">II", 1, num_samples)
    encoded[chunks + 16 : chunks + 20] = struct.pack(">I", num_samples)
    encoded[times + 12 : times + 16] = struct.pack(">I", num_samples)
    return bytes(encoded)


def decode(encoded: bytes) -> np.ndarray:
    return decode_audio(encoded, 16000, MediaLimits())


def test_a_sound_track_is_found_among_others() -> None:
    assert 8000 <= len(decode(m4a())) <= 10_000
    assert 8000 <= len(decode(m4a(MAX_TRACKS))) <= 10_000


def test_more_tracks_than_anyone_needs() -> None:
    with pytest.raises(MediaError):
        decode(m4a(MAX_TRACKS + 1))


def test_claimed_samples_take_no_memory() -> None:
    status, reset = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    if not os.access(reset, os.W_OK):
        pytest.skip("this system does not tell a process's peak")

    def mib_of(name: str) -> int:
        return int(status.read_text().partition(f"{name}:")[2].split()[0]) >> 10

    encoded = claiming(5_000_000)
    reset.write_text("5")  # the peak begins anew
    before = mib_of("VmRSS")
    with pytest.raises(MediaError):
        decode(encoded)
    assert mib_of("VmHWM") - before < 64
