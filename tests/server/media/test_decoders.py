"""Whatever a file does to its decoder, only its own request learns of it."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from models.processing.base import MediaError
from server.errors import Unavailable
from server.media.audio import decode_audio
from server.media.decoders import Decoders
from server.media.image import decode_image, read_header
from server.media.limits import MediaLimits
from tests import media_factory as factory

FAULTY = "tests.server.media.faulty_decoder"
MODEL: Any = SimpleNamespace(kinds={"image", "audio"}, sampling_rate=16_000)
PICTURE = factory.encode(factory.gradient(64, 48))
DAMAGED, TOO_MUCH, TOO_LONG = "damaged or incomplete", "too much memory", "too long to decode"


def go_on() -> bool:
    return False


@pytest.fixture
def faulty() -> Iterator[Decoders]:
    decoders = Decoders(MediaLimits(num_workers=1, decode_timeout_s=250), MODEL, FAULTY)
    yield decoders
    decoders.close()
    decoders.close()


def pids(decoders: Decoders) -> set[int]:
    return {child._process.pid for child in decoders._pool._idle}


def until(condition: Callable[[], bool]) -> None:
    for _ in range(4000):
        if condition():
            return
        time.sleep(0.005)
    raise AssertionError("it never came to that")


def refusal(decoders: Decoders, encoded: bytes, is_cancelled: Callable[[], bool] = go_on) -> MediaError:
    with pytest.raises(MediaError) as caught:
        decoders.decode_image(encoded, is_cancelled)
    return caught.value


@pytest.mark.parametrize(
    ("word", "message"),
    [
        (b"abort", DAMAGED),
        (b"fault", DAMAGED),
        (b"leave", DAMAGED),
        (b"spin", DAMAGED),
        (b"eat in C", DAMAGED),
        (b"eat", TOO_MUCH),
    ],
)
def test_a_decoder_that_ends_is_a_damaged_file_to_its_sender(
    word: bytes, message: str, faulty: Decoders
) -> None:
    first = pids(faulty)
    error = refusal(faulty, word + b"\n" + PICTURE)
    assert message in str(error)
    assert error.code == "image_parse_error"
    assert len(pids(faulty)) == 1, "another is there already"
    assert (pids(faulty) == first) == (word == b"eat")
    assert faulty.decode_image(PICTURE, go_on) == decode_image(PICTURE)


def test_a_decoder_that_hangs_is_ended_with_its_time() -> None:
    limits = MediaLimits(num_workers=1, decode_timeout_s=0.1)
    decoders = Decoders(limits, MODEL, FAULTY)
    (pid,) = pids(decoders)
    assert TOO_LONG in str(refusal(decoders, b"hang"))
    assert not os.path.exists(f"/proc/{pid}")
    decoders.close()


def test_cancelling_ends_the_process(faulty: Decoders) -> None:
    (pid,) = pids(faulty)
    refusal(faulty, b"hang", lambda: True)
    assert not os.path.exists(f"/proc/{pid}")
    assert faulty.decode_image(PICTURE, go_on) == decode_image(PICTURE)


def test_what_others_ended_is_asked_again(faulty: Decoders, tmp_path: Path) -> None:
    mark = bytes(tmp_path / "mark")
    assert faulty.decode_image(b"killed once\n%s\n%s" % (mark, PICTURE), go_on) == decode_image(PICTURE)
    with pytest.raises(Unavailable):
        faulty.decode_image(b"killed", go_on)
    (pid,) = pids(faulty)
    os.kill(pid, signal.SIGKILL)
    faulty._pool._idle[0]._process.wait()
    assert faulty.decode_image(PICTURE, go_on) == decode_image(PICTURE)


def test_what_others_ended_while_it_started_is_asked_again(faulty: Decoders) -> None:
    (child,) = faulty._pool._idle
    asked = child.ask

    def end_first(*question: Any) -> Any:
        child._process.kill()
        return asked(*question)

    child.ask = end_first  # type: ignore[method-assign]
    assert faulty.decode_image(PICTURE, go_on) == decode_image(PICTURE)


def test_what_libraries_print_is_no_answer(faulty: Decoders) -> None:
    assert faulty.decode_image(b"talk\n" + PICTURE, go_on) == decode_image(PICTURE)


def test_our_own_faults_are_not_laid_on_the_file(faulty: Decoders) -> None:
    with pytest.raises(RuntimeError, match="our own fault"):
        faulty.decode_image(b"raise", go_on)


def test_others_are_decoded_while_some_crash() -> None:
    decoders = Decoders(MediaLimits(num_workers=3), MODEL, FAULTY)
    words = [b"abort", b"fault", PICTURE, PICTURE] * 4

    def decode(encoded: bytes) -> bool:
        if encoded == PICTURE:
            return decoders.decode_image(encoded, go_on) == decode_image(PICTURE)
        return DAMAGED in str(refusal(decoders, encoded))

    with ThreadPoolExecutor(3) as threads:
        assert all(threads.map(decode, words))
    decoders.close()


def test_without_any_process_nothing_can_be_decoded(capfd: pytest.CaptureFixture[str]) -> None:
    decoders = Decoders(MediaLimits(num_workers=1), MODEL, "tests.server.media.nowhere")
    with pytest.raises(Unavailable):
        decoders.decode_image(PICTURE, go_on)
    decoders.close()
    assert "nowhere" in capfd.readouterr().err, "the operator is told why"


def test_a_model_without_media_has_no_decoders() -> None:
    model: Any = SimpleNamespace(kinds=frozenset(), sampling_rate=0)
    assert not pids(Decoders(MediaLimits(), model, FAULTY))


def test_closing_ends_all_processes() -> None:
    decoders = Decoders(MediaLimits(num_workers=2), MODEL, FAULTY)
    idle = pids(decoders)
    busy = threading.Thread(target=refusal, args=(decoders, b"hang", lambda: not decoders._pool._idle))
    busy.start()
    until(lambda: len(decoders._pool._idle) == 1)
    decoders.close()
    busy.join()
    assert not any(os.path.exists(f"/proc/{pid}") for pid in idle)
    assert decoders.decode_image(PICTURE, go_on) == decode_image(PICTURE), "who was accepted is still served"
    assert not pids(decoders)


SERVER = """
import sys
from types import SimpleNamespace
from server.media.decoders import Decoders
from server.media.limits import MediaLimits
model = SimpleNamespace(kinds={"image"}, sampling_rate=0)
decoders = Decoders(MediaLimits(num_workers=2), model, sys.argv[1])
print(*(child._process.pid for child in decoders._pool._idle), flush=True)
decoders.decode_image(b"hang\\n" + sys.argv[2].encode(), lambda: False)
"""


def test_none_outlives_a_server_that_is_killed(tmp_path: Path) -> None:
    """Neither one that waits nor one in the middle of a file. The directory that it was started in may hold
    packages of the same names."""
    for name in ("server", "models"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit(7)")
    program = f"import sys; sys.path[:] = {sys.path}\n{SERVER}"
    mark = tmp_path / "mark"
    command = [sys.executable, "-c", program, FAULTY, str(mark)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=tmp_path) as server:
        assert server.stdout is not None
        children = [int(pid) for pid in server.stdout.readline().split()]
        assert len(children) == 2
        until(mark.exists)
        server.kill()
    until(lambda: not any(is_running(pid) for pid in children))


def is_running(pid: int) -> bool:
    """A zombie, which whoever adopted it may leave for a while, does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


SOUNDS = {"WAV": "PCM_16", "FLAC": "PCM_16", "OGG": "VORBIS", "MP3": "MPEG_LAYER_III"}


@pytest.mark.parametrize("format", ["PNG", "BMP", "GIF", "WEBP", "JPEG"])
def test_pictures_are_the_same_as_in_one_process(format: str) -> None:
    decoders = Decoders(MediaLimits(), MODEL)
    for size in ((1, 1), (700, 1), (1, 700), (999, 801)):
        encoded = factory.encode(factory.noise(*size), format)
        found, right = decoders.decode_image(encoded, go_on), decode_image(encoded)
        assert (found.mode, found.size, found.info) == (right.mode, right.size, right.info)
        assert found.tobytes() == right.tobytes()
        assert decoders.read_header(encoded, go_on) == read_header(encoded, 10**6)
    with pytest.raises(MediaError, match=DAMAGED):
        decoders.decode_image(encoded[:-200], go_on)


@pytest.mark.parametrize("format", SOUNDS)
def test_sounds_are_the_same_as_in_one_process(format: str) -> None:
    decoders, limits = Decoders(MediaLimits(max_audio_seconds=3), MODEL), MediaLimits(max_audio_seconds=3)
    for rate in (16_000, 44_100):
        encoded = factory.sound(factory.tone(2.0, rate), rate, format=format, subtype=SOUNDS[format])
        found, right = decoders.decode_audio(encoded, go_on), decode_audio(encoded, 16_000, limits)
        assert found.dtype == right.dtype
        assert found.flags.writeable
        assert np.array_equal(found, right)
    with pytest.raises(MediaError) as caught:
        decoders.decode_audio(factory.sound(factory.tone(4.0), format=format, subtype=SOUNDS[format]), go_on)
    assert caught.value.code == "audio_too_long"
