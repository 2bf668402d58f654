"""A streaming chat request over a raw socket, timed at every event.

Cheap, so that the client does not take the cores it measures.
"""

import asyncio
import json
import time
from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass
class Timing:
    """One request as the client saw it. Times in seconds since the request was sent."""

    sent_at: float
    event_times_s: list[float] = field(default_factory=list)
    """When each piece of text arrived."""
    done_s: float = 0.0
    text: str = ""
    finished: bool = False
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    error: str = ""

    @property
    def ttft_s(self) -> float:
        return self.event_times_s[0] if self.event_times_s else float("nan")

    @property
    def gaps_s(self) -> list[float]:
        return [b - a for a, b in zip(self.event_times_s, self.event_times_s[1:], strict=False)]


async def chat(base_url: str, body: dict, api_key: str = "none") -> Timing:
    """POST body to /chat/completions, streaming, with usage; a server's error stands in Timing.error."""
    url = urlsplit(base_url)
    host, port = url.hostname or "127.0.0.1", url.port or 80
    payload = json.dumps(body | {"stream": True, "stream_options": {"include_usage": True}}).encode()
    head = (
        f"POST {url.path.rstrip('/')}/chat/completions HTTP/1.1\r\nHost: {host}:{port}\r\n"
        f"Authorization: Bearer {api_key}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(payload)}\r\nConnection: close\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection(host, port, limit=1 << 22)
    timing = Timing(sent_at=time.perf_counter())
    writer.write(head.encode() + payload)
    try:
        await writer.drain()
        status = (await reader.readline()).split()
        while (await reader.readline()).strip():
            pass
        if status[1] != b"200":
            timing.error = (await reader.read()).decode(errors="replace")[:300]
        else:
            await _read_events(reader, timing)
    except (ConnectionError, IndexError, asyncio.IncompleteReadError) as error:
        timing.error = repr(error)
    finally:
        timing.done_s = time.perf_counter() - timing.sent_at
        writer.close()
    return timing


async def _read_events(reader: asyncio.StreamReader, timing: Timing) -> None:
    # Chunk sizes of the transfer encoding stand on lines of their own and are simply not `data:` lines.
    async for line in reader:
        if not line.startswith(b"data:"):
            continue
        data = line[5:].strip()
        if data == b"[DONE]":
            return
        event = json.loads(data)
        if "error" in event:
            timing.error = str(event["error"])[:300]
            return
        _note_event(event, timing)
    if not timing.finished:  # some servers send no [DONE] after that
        timing.error = timing.error or "the stream ended before the answer did"


def _note_event(event: dict, timing: Timing) -> None:
    for choice in event.get("choices") or ():
        timing.finished |= bool(choice.get("finish_reason"))
        if text := (choice.get("delta") or {}).get("content"):
            timing.event_times_s.append(time.perf_counter() - timing.sent_at)
            timing.text += text
    if usage := event.get("usage"):
        timing.prompt_tokens = usage["prompt_tokens"]
        timing.completion_tokens = usage["completion_tokens"]
        timing.cached_tokens = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
