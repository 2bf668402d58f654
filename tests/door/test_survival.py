"""An engine that dies or hangs under load, a pool too small for what is asked, tenants that share nothing:
one real server, with keys and hardly any memory."""

import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import openai
import pytest

from tests.door.conftest import Door, start, stop
from tests.door.test_openai_client import image, text

FIRST = {"authorization": "Bearer first-key"}
KEYS = ("--api-key", "one:first-key", "--api-key", "two:second-key")
POOL = ("--kv-cache-memory", "3MiB", "--encoder-cache-memory", "160KiB")
HANG_S = 3.0


@pytest.fixture(scope="module")
def poor(door: Door, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    log = tmp_path_factory.mktemp("poor") / "server.log"
    served = start(door.directory, log, *KEYS, *POOL, "--threads", "1", "--engine-timeout", str(HANG_S))
    yield served
    assert stop(served) == 0


def ask(poor: Door, *parts: dict, key: str = "first-key", **options: object):
    client = openai.OpenAI(base_url=f"{poor.url}/v1", api_key=key, max_retries=0)
    options = {"max_completion_tokens": 8, "temperature": 0} | options
    messages = [{"role": "user", "content": list(parts)}]
    return client.chat.completions.create(model="tiny-omni", messages=messages, **options)  # type: ignore[call-overload]


def told(poor: Door, number: int) -> str | None:
    """How a stream that would go on for long ended: the error's code, None for an end that looks good."""
    endless = {"ignore_eos": True}
    try:
        for _ in ask(poor, text(f"{number}"), stream=True, max_completion_tokens=1900, extra_body=endless):
            pass
    except openai.APIError as error:
        return error.code
    return None


def engine_of(poor: Door) -> int:
    found = subprocess.run(
        ["pgrep", "-P", str(poor.process.pid), "-f", "engine.process"], capture_output=True, text=True
    )
    return int(found.stdout)


def ready(poor: Door) -> bool:
    try:
        with urllib.request.urlopen(f"{poor.url}/ready", timeout=5):
            return True
    except urllib.error.HTTPError as refusal:
        refusal.close()
        return False


def until(condition: Callable[[], bool], within_s: float) -> float:
    """Seconds that it took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < within_s
        time.sleep(0.02)
    return time.monotonic() - began


@pytest.mark.parametrize(("blow", "noticed_s"), [(signal.SIGKILL, 2.0), (signal.SIGSTOP, HANG_S + 4.0)])
def test_eight_streams_on_an_engine_that_stops(poor: Door, blow: signal.Signals, noticed_s: float) -> None:
    canary = [text("canary"), image(1)]
    before = ask(poor, *canary).choices[0].message.content
    engine = engine_of(poor)
    with ThreadPoolExecutor(8) as pool:
        streams = [pool.submit(told, poor, number) for number in range(8)]
        time.sleep(0.3)
        os.kill(engine, blow)
        until(lambda: all(stream.done() for stream in streams), noticed_s)
        assert {stream.result() for stream in streams} <= {"engine_unavailable", None}
        assert "engine_unavailable" in {stream.result() for stream in streams}
    assert not ready(poor)
    until(lambda: ready(poor), 60)
    assert engine_of(poor) != engine
    assert ask(poor, *canary).choices[0].message.content == before


def test_two_hundred_that_leave_and_one_that_stays(poor: Door) -> None:
    def leave(number: int) -> None:
        messages = [{"role": "user", "content": f"{number} " * 300}]
        body = {"model": "tiny-omni", "messages": messages, "n": 64, "ignore_eos": True}
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{poor.url}/v1/chat/completions", json=body, headers=FIRST, timeout=0.5)

    with ThreadPoolExecutor(50) as pool:
        list(pool.map(leave, range(200)))
    assert ask(poor, text("and you?"), timeout=20).usage


def test_killed_and_started_again_on_the_same_port(door: Door, tmp_path: Path) -> None:
    first = start(door.directory, tmp_path / "first.log", "--threads", "1")
    first.process.kill()
    first.process.wait(10)
    port = first.url.rpartition(":")[2]
    second = start(door.directory, tmp_path / "second.log", "--threads", "1", "--port", port)
    assert second.url == first.url
    with second.client() as client:
        for number in range(100):
            assert client.completions.create(model="tiny-omni", prompt=f"{number}", max_tokens=1).usage
    assert stop(second) == 0


def test_sixteen_long_requests_in_a_pool_for_a_few(poor: Door) -> None:
    def answer(number: int):
        parts = [
            text("Q" * 40),
            image(number, 300, 260),
            text("Z" * (200 + 10 * number)),
            image(99, 280, 260),
        ]
        options = {"max_completion_tokens": 200, "temperature": number % 2, "seed": number}
        reply = ask(poor, *parts, logprobs=True, top_logprobs=2, extra_body={"ignore_eos": True}, **options)
        content = reply.choices[0].logprobs.content
        assert len(content) == reply.usage.completion_tokens == 200
        return reply.choices[0].message.content, [(token.token, token.logprob) for token in content]

    alone = [answer(number) for number in range(16)]
    with ThreadPoolExecutor(16) as pool:
        together = list(pool.map(answer, range(16)))
    assert together == alone


def test_what_can_never_fit_is_refused_and_what_fits_one_by_one_is_served(poor: Door) -> None:
    with pytest.raises(openai.BadRequestError) as refusal:
        ask(poor, image(5, 1100, 900))
    assert refusal.value.code == "media_too_large"
    assert ask(poor, image(6, 700, 600), image(7, 700, 600), image(8, 700, 600)).usage


def test_tenants_and_salts_find_nothing_of_each_other(poor: Door) -> None:
    parts = [text("Z" * 300), image(11), text("end")]

    def cached(key: str, salt: str | None = None) -> int:
        reply = ask(poor, *parts, key=key, extra_body={"cache_salt": salt} if salt else {})
        return reply.usage.prompt_tokens_details.cached_tokens

    for key, salt in (("first-key", "x"), ("second-key", "x"), ("first-key", "y"), ("second-key", None)):
        assert cached(key, salt) == 0
        assert cached(key, salt) > 0
