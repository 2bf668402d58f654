"""A model of bytes: token ids 0..255 are bytes, 256 ends the text. Its engine says what the test scripts."""

import asyncio
import codecs
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from engine.client import EngineDead, MediaSource
from engine.messages import EngineInfo, EngineStats, Generate, TokenLogprobs, TokensGenerated
from kvcache.keys import MediaKey, content_digest
from kvcache.sequence import TokenSequence
from kvcache.spans import MediaSpan
from models.processing.base import MediaError, MediaLayout, PreparedMedia
from server.choice import TextDecoder
from server.grammar_trials import GrammarTrials
from server.media.item import MediaPart, ResolvedMedia
from server.prompt import PromptError, PromptTooLong, RenderedPrompt
from server.runtime import Runtime
from server.settings import Settings
from server.state import ServerState
from server.validated import ModelFacts

EOS = 256
IMAGE = 257
VOCAB_SIZE = 260
MAX_MODEL_LEN = 400

Step = TokensGenerated | Exception | float
"""What a scripted engine does next: say something, fail, or wait so many seconds."""
Script = Callable[[Generate], Sequence[Step]]


def say(text: str, finish_reason: str = "stop", choice: int = 0, cached: int = 0) -> list[Step]:
    """One event a byte; ends with EOS, or with the last byte where the reason is "length"."""
    ids = [*text.encode(), *([EOS] if finish_reason == "stop" else [])]
    last = len(ids) - 1
    return [
        TokensGenerated(
            request_id="",
            choice=choice,
            token_ids=(token_id,),
            finish_reason=finish_reason if index == last else "",
            num_cached_tokens=cached if index == 0 and choice == 0 else -1,
            logprobs=(TokenLogprobs(-0.5, ((token_id, -0.5), (65, -1.5))),),
        )
        for index, token_id in enumerate(ids)
    ]


class FakeEngine:
    def __init__(self, script: Script) -> None:
        self.script = script
        self.info = EngineInfo(
            "Bytes", "float32", "cpu", "reference", MAX_MODEL_LEN, 100, 16, 1 << 20, VOCAB_SIZE
        )
        self.stats = EngineStats(num_free_blocks=100, num_blocks=100)
        self.alive = True
        self.closed = False
        self.stalled_s = 0.0
        self.requests: list[Generate] = []
        self.num_open = 0
        self.num_aborted = 0
        self.stopped: set[tuple[str, int]] = set()
        """Choices that were stopped alone, by request id."""

    async def generate(self, request: Generate, media: MediaSource) -> AsyncIterator[TokensGenerated]:
        self.requests.append(request)
        self.num_open += 1
        unfinished = set(range(request.num_choices))
        try:
            for item in request.media:
                await media(item.key)
            for step in self.script(request):
                if isinstance(step, Exception):
                    unfinished.clear()
                    raise step
                if isinstance(step, float | int):
                    await asyncio.sleep(step)
                elif (request.request_id, step.choice) not in self.stopped:
                    if step.finish_reason:
                        unfinished.discard(step.choice)
                    yield step
            unfinished.clear()
        finally:
            self.num_open -= 1
            self.num_aborted += any((request.request_id, n) not in self.stopped for n in unfinished)

    def stop_choice(self, request_id: str, choice: int) -> None:
        self.stopped.add((request_id, choice))

    def abort(self, request_id: str) -> None:
        raise AssertionError("closing the iterator aborts")

    def seconds_since_progress(self) -> float:
        return self.stalled_s

    async def close(self) -> None:
        self.alive = False
        self.closed = True


class FakeDecoder:
    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token_ids: list[int]) -> str:
        return self._decoder.decode(bytes(token_id for token_id in token_ids if token_id < 256))

    def finish(self) -> str:
        return self._decoder.decode(b"", final=True)


class FakeVocabulary:
    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        return bytes(token_id for token_id in ids if token_id < 256).decode("utf-8", "replace")

    def token_bytes(self, token_id: int) -> bytes:
        return bytes([token_id]) if token_id < 256 else b"<eos>"


class FakePrompts:
    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        items: Sequence[ResolvedMedia] = (),
        tools: Sequence[Mapping[str, Any]] | None = None,
        template_kwargs: Mapping[str, Any] | None = None,
        add_generation_prompt: bool = True,
        max_characters: int | None = None,
    ) -> RenderedPrompt:
        self.seen.append({"messages": messages, "tools": tools, "kwargs": template_kwargs})
        if template_kwargs and template_kwargs.get("refuse"):
            raise PromptError("refused by the template")
        ids: list[int] = []
        spans: list[MediaSpan] = []
        waiting = iter(items)
        for message in messages:
            content = message["content"]
            for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
                if part["type"] == "text":
                    ids += part["text"].encode()
                else:
                    item = next(waiting)
                    spans.append(MediaSpan(len(ids), len(ids) + item.layout.num_tokens, item.key))
                    ids += [IMAGE] * item.layout.num_tokens
        if max_characters is not None and len(ids) > max_characters:
            raise PromptTooLong(len(ids))
        ids += b">" if add_generation_prompt else b""
        num_media = ids.count(IMAGE)
        return RenderedPrompt(TokenSequence(ids, spans), list(items), len(ids) - num_media, num_media, 0)

    def render_text(self, prompt: str) -> RenderedPrompt:
        return self.render_ids(list(prompt.encode()))

    def render_ids(self, ids: Sequence[int]) -> RenderedPrompt:
        if any(not 0 <= token_id < VOCAB_SIZE for token_id in ids):
            raise PromptError("not a token id of this model")
        return RenderedPrompt(TokenSequence(ids), [], len(ids), 0, 0)


class FakeMedia:
    """Every source is a picture of 4 tokens, unless it says "bad"."""

    def __init__(self) -> None:
        self.num_resolved = 0
        self.num_open = 0
        self.closed = False

    @asynccontextmanager
    async def request(self, namespace: bytes, tenant: str) -> AsyncIterator["FakeMedia"]:
        self.num_open += 1
        try:
            yield self
        finally:
            self.num_open -= 1

    async def resolve(self, part: MediaPart) -> ResolvedMedia:
        self.num_resolved += 1
        data = part.source if isinstance(part.source, bytes) else part.source.encode()
        if b"bad" in data:
            raise MediaError("The image can't be read.", "image_parse_error")
        return ResolvedMedia(part.kind, MediaKey(content_digest(data)), MediaLayout(4))

    async def prepare(self, key: bytes) -> PreparedMedia:
        return {}

    def close(self) -> None:
        self.closed = True


GRAMMARS = GrammarTrials(trial_s=60)
"""One for all benches: its processes take a moment to start."""


class Bench:
    """A server around a scripted engine."""

    def __init__(self, script: Script | str = "Hello", supports_tools: bool = True, **settings: Any) -> None:
        steps = say(script) if isinstance(script, str) else None
        self.engine = FakeEngine((lambda _: steps) if steps is not None else script)  # type: ignore[arg-type]
        self.prompts = FakePrompts()
        self.media = FakeMedia()
        self.state = ServerState(Settings(served_model_name=("bytes",), **settings))
        self.state.grammars = GRAMMARS
        facts = ModelFacts(("bytes",), VOCAB_SIZE, frozenset({EOS}), frozenset({"image"}), supports_tools)
        self.state.runtime = Runtime(
            engine=self.engine,
            prompts=self.prompts,
            media=self.media,
            vocabulary=FakeVocabulary(),
            make_decoder=_decoder,
            facts=facts,
            think=None,
            created=1_700_000_000,
        )

    def assert_idle(self) -> None:
        """Nothing of any request is left."""
        assert self.engine.num_open == 0
        assert self.media.num_open == 0
        assert self.state.admission.num_inside == 0
        assert self.state.admission.num_waiting == 0
        assert self.state.telemetry.num_open == 0
        assert self.state.bodies.used_bytes == 0


def _decoder(shown_ids: frozenset[int]) -> TextDecoder:
    return FakeDecoder()


def user(content: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": content}]


def chat(content: Any = "hi", **fields: Any) -> dict[str, Any]:
    return {"model": "bytes", "messages": user(content), **fields}


def image(url: str = "data:image/png;base64,AAAA") -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


DEAD = EngineDead("gone")
