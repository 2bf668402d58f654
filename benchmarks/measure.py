"""Runs a workload against one server and condenses what the client saw."""

import asyncio
import statistics
import time
from typing import NamedTuple

from benchmarks.http_stream import Timing, chat
from benchmarks.workloads import WORKLOADS, Chat, chats


class Result(NamedTuple):
    """One cell: a workload at one concurrency on one server. Times in milliseconds."""

    workload: str
    concurrency: int
    num_requests: int
    num_errors: int
    wall_s: float
    ttft_first_ms: float
    """Median over first turns."""
    ttft_later_ms: float
    """Median over later turns; nan where chats have one turn."""
    gap_median_ms: float
    gap_p95_ms: float
    gap_p99_ms: float
    output_tokens_per_s: float
    requests_per_s: float
    cached_tokens: int
    prompt_tokens: int


async def run(
    base_url: str, model: str, workload: str, concurrency: int, num_chats: int, seed: int
) -> Result:
    """`concurrency` users take chats from a common list until none is left."""
    pending = list(chats(workload, seed, num_chats))
    turns: list[list[Timing]] = []

    async def user() -> None:
        while pending:
            turns.append(await _run_chat(base_url, model, pending.pop(0), WORKLOADS[workload].max_tokens))

    start = time.perf_counter()
    await asyncio.gather(*(user() for _ in range(concurrency)))
    return _condense(workload, concurrency, turns, time.perf_counter() - start)


async def _run_chat(base_url: str, model: str, messages: Chat, max_tokens: int) -> list[Timing]:
    said: list[dict] = []
    timings = []
    for message in messages:
        message = dict(message)
        follow_up = message.pop("then", None)
        said += [message, follow_up] if follow_up else [message]
        body = {"model": model, "messages": said, "max_tokens": max_tokens, "temperature": 0}
        timing = await chat(base_url, body)
        timings.append(timing)
        said.append({"role": "assistant", "content": timing.text or "."})
    return timings


def _condense(workload: str, concurrency: int, turns: list[list[Timing]], wall_s: float) -> Result:
    every = [timing for chat_turns in turns for timing in chat_turns]
    good = [timing for timing in every if not timing.error]
    gaps = sorted(gap for timing in good for gap in timing.gaps_s)
    later = [timing.ttft_s for chat_turns in turns for timing in chat_turns[1:] if not timing.error]
    if workload.endswith(("-repeat", "-warm")) and not later:
        # One request sent again and again: whichever comes first is the only cold one.
        later = [timing.ttft_s for timing in good[1:]]
        good_first = good[:1]
    else:
        good_first = [chat_turns[0] for chat_turns in turns if not chat_turns[0].error]
    return Result(
        workload=workload,
        concurrency=concurrency,
        num_requests=len(every),
        num_errors=len(every) - len(good),
        wall_s=wall_s,
        ttft_first_ms=_median_ms([timing.ttft_s for timing in good_first]),
        ttft_later_ms=_median_ms(later),
        gap_median_ms=_median_ms(gaps),
        gap_p95_ms=_quantile_ms(gaps, 0.95),
        gap_p99_ms=_quantile_ms(gaps, 0.99),
        output_tokens_per_s=sum(timing.completion_tokens for timing in good) / wall_s,
        requests_per_s=len(good) / wall_s,
        cached_tokens=sum(timing.cached_tokens for timing in good),
        prompt_tokens=sum(timing.prompt_tokens for timing in good),
    )


def _median_ms(seconds: list[float]) -> float:
    return statistics.median(seconds) * 1e3 if seconds else float("nan")


def _quantile_ms(ordered_s: list[float], quantile: float) -> float:
    return (
        ordered_s[min(len(ordered_s) - 1, int(len(ordered_s) * quantile))] * 1e3
        if ordered_s
        else float("nan")
    )
