"""The same question about the same picture, three times: what is found again, and is the answer the same?

The second and the third compute the same thing and must agree to the last bit. The first computes the whole
prompt in other shapes, so in 16 bits its figures differ by rounding, and a near tie may go the other way.
"""

import json
import urllib.request

from benchmarks.gpu_check.record import Record
from benchmarks.gpu_check.sections import Work
from benchmarks.gpu_check.server import serving
from benchmarks.server_process import Server
from benchmarks.workloads import chats

ASKED = {"max_tokens": 16, "temperature": 0, "logprobs": True, "top_logprobs": 2}


def measure(work: Work, record: Record) -> None:
    """RuntimeError if the third answer isn't the second, or the prompt was not found again."""
    with serving(work, record, 0) as server:
        cold, warm, again = (_ask(server, record) for _ in range(3))
    first, second = (_tokens(answer) for answer in (cold, warm))
    same = [a["token"] == b["token"] for a, b in zip(first, second, strict=False)]
    agreed = same.index(False) if False in same else len(same)
    record.add(
        cached=[_cached(answer) for answer in (cold, warm, again)],
        prompt_tokens=cold["usage"]["prompt_tokens"],
        warm_equals_warm=warm["choices"] == again["choices"],
        cold_equals_warm=cold["choices"][0]["message"] == warm["choices"][0]["message"],
        tokens_agreed=f"{agreed} of {len(first)}",
        logprob_difference=max(
            (abs(a["logprob"] - b["logprob"]) for a, b in zip(first[:agreed], second, strict=False)),
            default=None,
        ),
        margin_where_they_part=_margin(first[agreed]) if agreed < len(first) else None,
    )
    if warm["choices"] != again["choices"]:
        raise RuntimeError("two answers that were computed alike differ")
    if not _cached(warm) == _cached(again) == cold["usage"]["prompt_tokens"] - 1:
        raise RuntimeError("of a repeated prompt more than one token was computed")


def _ask(server: Server, record: Record) -> dict:
    body = {"model": server.model, "messages": chats("image-cold", 77, 1)[0], **ASKED}
    request = urllib.request.Request(
        f"{server.base_url}/chat/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=max(30.0, record.time_left_s)) as response:
        return json.load(response)


def _tokens(answer: dict) -> list[dict]:
    return answer["choices"][0]["logprobs"]["content"]


def _cached(answer: dict) -> int:
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def _margin(token: dict) -> float:
    """By how much the first choice was ahead of the second."""
    best, next_best = (each["logprob"] for each in token["top_logprobs"])
    return best - next_best
