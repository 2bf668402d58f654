"""Every kind of sound becomes the same samples, or a refusal in plain words."""

import io
import re
import struct
import tracemalloc
from datetime import timedelta

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings

from models.processing.base import MediaError
from server.media.audio import decode_audio
from server.media.limits import MediaLimits
from tests import media_factory as factory
from tests.server.media.mutations import mutated

LIMITS = MediaLimits(max_audio_seconds=30)
INTERNALS = re.compile(r"0x[0-9a-f]{6,}|Traceback|BytesIO|libsndfile|psf_|site-packages|/\w+/\w+")


def samples_of(encoded: bytes, limits: MediaLimits = LIMITS) -> np.ndarray:
    samples = decode_audio(encoded, 16000, limits)
    assert samples.dtype == np.float32
    assert samples.ndim == 1
    return samples


def refusal(encoded: bytes, limits: MediaLimits = LIMITS) -> MediaError:
    with pytest.raises(MediaError) as caught:
        samples_of(encoded, limits)
    assert not INTERNALS.search(str(caught.value))
    return caught.value


def taken_or_refused(encoded: bytes) -> np.ndarray | str:
    try:
        return samples_of(encoded)
    except MediaError as error:
        message = str(error)
    assert not INTERNALS.search(message)
    return message


def pitch(samples: np.ndarray, rate: int = 16000) -> float:
    """Hz of the strongest frequency."""
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
    return float(np.argmax(spectrum) * rate / len(samples))


@pytest.mark.parametrize(
    ("format", "subtype", "tolerance"),
    [
        ("WAV", "PCM_U8", 0.01),
        ("WAV", "PCM_16", 1e-4),
        ("WAV", "PCM_24", 1e-6),
        ("WAV", "PCM_32", 1e-6),
        ("WAV", "FLOAT", 1e-6),
        ("WAV", "DOUBLE", 1e-6),
        ("WAV", "ULAW", 0.02),
        ("WAV", "ALAW", 0.02),
        ("WAV", "MS_ADPCM", 0.05),
        ("WAV", "IMA_ADPCM", 0.05),
        ("WAVEX", "PCM_16", 1e-4),
        ("RF64", "PCM_16", 1e-4),
        ("FLAC", "PCM_16", 1e-4),
        ("FLAC", "PCM_24", 1e-6),
        ("OGG", "VORBIS", 0.1),
        ("OGG", "OPUS", 0.1),
        ("MP3", "MPEG_LAYER_III", 0.1),
    ],
)
def test_formats(format: str, subtype: str, tolerance: float) -> None:
    wave = factory.tone(1.0)
    samples = samples_of(factory.sound(wave, format=format, subtype=subtype))
    assert abs(len(samples) - 16000) <= 2400
    assert abs(pitch(samples) - 440) < 2
    if subtype not in ("VORBIS", "OPUS", "MPEG_LAYER_III"):
        settled = slice(200, 16000)  # adaptive codecs need a moment
        assert np.abs(samples[settled] - wave[settled, 0]).max() < tolerance
    assert abs(float(np.abs(samples[2000:14000]).max()) - 0.5) < max(tolerance, 0.02)


@pytest.mark.parametrize("rate", [8000, 11025, 22050, 44100, 48000, 96000])
@pytest.mark.parametrize("channels", [1, 2, 6])
def test_rates_and_channels(rate: int, channels: int) -> None:
    samples = samples_of(factory.sound(factory.tone(0.5, rate, channels=channels), rate))
    assert abs(len(samples) - 8000) <= 1
    assert abs(pitch(samples) - 440) < 4
    assert abs(float(np.abs(samples[1000:7000]).max()) - 0.5) < 0.01


def test_channels_are_averaged() -> None:
    wave = factory.tone(0.5)
    assert np.abs(samples_of(factory.sound(np.hstack([wave, -wave])))).max() < 1e-4
    half = samples_of(factory.sound(np.hstack([wave, 0 * wave])))
    assert np.abs(half - wave[:, 0] / 2).max() < 1e-3


def test_golden_samples() -> None:
    steps = np.arange(-8000, 8000, dtype=np.int16)
    assert (samples_of(factory.sound(steps)) == steps.astype(np.float32) / 32768).all()


def test_silence_is_a_sound() -> None:
    assert not samples_of(factory.sound(np.zeros(16000))).any()


@pytest.mark.parametrize(
    "encoded",
    [
        b"",
        factory.sound(np.zeros(0)),
        factory.sound(np.zeros(0))[:44],
        factory.sound(np.zeros(1)),
        factory.sound(np.zeros(160)),
        factory.sound(np.zeros(0), format="OGG", subtype="VORBIS"),
        factory.sound(np.zeros(1), format="OGG", subtype="VORBIS"),
    ],
)
def test_too_short(encoded: bytes) -> None:
    assert refusal(encoded).code == "audio_too_short"


def test_too_many_channels() -> None:
    assert refusal(factory.sound(np.zeros((1600, 1000)))).code == "invalid_audio"


@pytest.mark.parametrize("rate", [1, 2**31 - 1])
def test_odd_rates(rate: int) -> None:
    encoded = bytearray(factory.sound(factory.tone(1.0)))
    encoded[24:28] = struct.pack("<I", rate)
    assert refusal(bytes(encoded)).code == "invalid_audio"


def test_header_with_impossible_numbers() -> None:
    for offset, value in ((22, struct.pack("<H", 0)), (24, struct.pack("<I", 2**32 - 1))):
        encoded = bytearray(factory.sound(factory.tone(1.0)))
        encoded[offset : offset + len(value)] = value
        assert refusal(bytes(encoded)).code == "invalid_audio"


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e18, -3e38])
def test_numbers_that_are_none(bad: float) -> None:
    wave = factory.tone(1.0)
    wave[9000] = bad
    assert refusal(factory.sound(wave, subtype="FLOAT")).code == "invalid_audio"


def test_double_beyond_float() -> None:
    wave = factory.tone(1.0)
    wave[9000] = 1e300
    assert refusal(factory.sound(wave, subtype="DOUBLE")).code == "invalid_audio"


def test_length_is_counted_while_decoding() -> None:
    blocks: list[int] = []
    encoded = factory.sound(np.zeros(16000 * 600, np.int16), format="FLAC")
    assert len(encoded) < 60_000
    read = soundfile.SoundFile.read

    def counting(self: soundfile.SoundFile, *args: object, **kwargs: object) -> np.ndarray:
        blocks.append(1)
        return read(self, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(soundfile.SoundFile, "read", counting)
        assert refusal(encoded).code == "audio_too_long"
    assert len(blocks) <= 30 * 16000 // 65536 + 2


@pytest.mark.parametrize(("seconds", "taken"), [(29.9, True), (30.0, True), (30.1, False), (31.0, False)])
def test_limit(seconds: float, taken: bool) -> None:
    encoded = factory.sound(np.zeros(round(seconds * 8000), np.int16), 8000)
    if taken:
        assert len(samples_of(encoded)) == round(seconds * 16000)
    else:
        assert refusal(encoded).code == "audio_too_long"


@pytest.mark.parametrize("format", ["WAV", "MP3"])
def test_cut_files_give_what_is_there(format: str) -> None:
    """The header may promise more; only decoded samples count."""
    encoded = factory.sound(factory.tone(2.0), format=format)
    samples = samples_of(encoded[: len(encoded) // 2])
    assert 0.2 * 16000 < len(samples) < 1.8 * 16000


@pytest.mark.parametrize(("format", "subtype"), [("FLAC", "PCM_16"), ("OGG", "VORBIS"), ("OGG", "OPUS")])
def test_cut_files_that_decoders_notice(format: str, subtype: str) -> None:
    encoded = factory.sound(factory.tone(2.0), format=format, subtype=subtype)
    assert refusal(encoded[: len(encoded) // 2]).code == "invalid_audio"


@pytest.mark.parametrize("subtype", ["VORBIS", "OPUS"])
def test_a_file_cut_off_before_its_first_sample_is_damaged_and_not_short(subtype: str) -> None:
    encoded = factory.sound(factory.tone(2.0), format="OGG", subtype=subtype)
    pages = [found.start() for found in re.finditer(b"OggS", encoded)] + [len(encoded)]
    first = len(pages) - 2 if subtype == "VORBIS" else 2
    for end in (pages[first], pages[first] + 1, pages[first] + 40, pages[first + 1] - 1):
        assert refusal(encoded[:end]).code == "invalid_audio"


@pytest.mark.parametrize(
    ("encoded", "code"),
    [
        (factory.encode(factory.solid("red")), "unsupported_audio_format"),
        (b"nothing that is a sound at all", "unsupported_audio_format"),
        (b"RIFF\x00\x00\x00\x00WAVE", "invalid_audio"),
        (b"fLaC" + bytes(100), "invalid_audio"),
        (b"OggS" + bytes(100), "invalid_audio"),
        (b"ID3" + bytes(100), "invalid_audio"),
    ],
)
def test_what_is_no_sound(encoded: bytes, code: str) -> None:
    assert refusal(encoded).code == code


@pytest.mark.parametrize(("container", "codec"), [("mp4", "aac"), ("webm", "libopus")])
def test_containers(container: str, codec: str) -> None:
    av = pytest.importorskip("av")
    buffer = io.BytesIO()
    with av.open(buffer, "w", format=container) as output:
        stream = output.add_stream(codec, rate=48000, layout="mono")
        frame = av.AudioFrame.from_ndarray(
            factory.tone(1.0, 48000).T.astype(np.float32).copy(), "fltp", "mono"
        )
        frame.sample_rate = 48000
        for packet in [*stream.encode(frame), *stream.encode(None)]:
            output.mux(packet)
    samples = samples_of(buffer.getvalue())
    assert abs(len(samples) - 16000) < 2000
    assert abs(pitch(samples) - 440) < 4
    assert refusal(buffer.getvalue()[:60]).code == "invalid_audio"


SEEDS = [
    factory.sound(factory.tone(0.3), format=format, subtype=subtype)
    for format, subtype in (
        ("WAV", "PCM_16"),
        ("WAV", "MS_ADPCM"),
        ("FLAC", None),
        ("OGG", None),
        ("MP3", None),
    )
]


@settings(max_examples=200, deadline=timedelta(seconds=3))
@given(encoded=mutated(SEEDS, 3000))
def test_mutated_files_are_taken_or_refused(encoded: bytes) -> None:
    outcome = taken_or_refused(encoded)
    assert isinstance(outcome, str) or np.isfinite(outcome).all()


def test_a_high_rate_costs_no_more_memory_than_what_is_kept_of_it() -> None:
    """30 s of silence at 384 kHz are 46 MB of samples in a few kilobytes; 2 MB of them are kept."""
    encoded = factory.sound(np.zeros(384_000 * 30, np.float32), 384_000, "FLAC")
    tracemalloc.start()
    try:
        samples = decode_audio(encoded, 16_000, MediaLimits())
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert abs(len(samples) - 480_000) <= 1
    assert peak_bytes < 12e6
