"""What the server holds while a model is loaded, as protocols: the engine's client, prompts, media and
tokenizer.

The implementations are put together in `server.loading`; tests put in others.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from engine.client import EngineClient
from models.processing.base import PreparedMedia
from server.choice import TextDecoder
from server.media.item import MediaPart, ResolvedMedia
from server.prompt import RenderedPrompt
from server.reasoning import ThinkTokens
from server.response_template.template import ResponseTemplate
from server.validated import ModelFacts


class MediaRequest(Protocol):
    """The media of one request, held until it ends."""

    async def resolve(self, part: MediaPart) -> ResolvedMedia:
        """Raises MediaError, or Unavailable."""
        ...

    async def prepare(self, key: bytes) -> PreparedMedia:
        """Raises MediaError."""
        ...


class MediaSource(Protocol):
    def request(self, namespace: bytes, tenant: str) -> AbstractAsyncContextManager[MediaRequest]:
        """namespace: what is remembered is kept apart by it. tenant: they take turns."""
        ...

    def close(self) -> None:
        """Nothing more is to be resolved or prepared."""
        ...


class Prompts(Protocol):
    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        items: Sequence[ResolvedMedia] = (),
        tools: Sequence[Mapping[str, Any]] | None = None,
        template_kwargs: Mapping[str, Any] | None = None,
        add_generation_prompt: bool = True,
        max_characters: int | None = None,
    ) -> RenderedPrompt: ...

    def render_text(self, prompt: str) -> RenderedPrompt: ...

    def render_ids(self, ids: Sequence[int]) -> RenderedPrompt: ...


class Vocabulary(Protocol):
    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str: ...

    def token_bytes(self, token_id: int) -> bytes: ...


class MakeDecoder(Protocol):
    def __call__(self, shown_ids: frozenset[int]) -> TextDecoder:
        """shown_ids: special tokens that are text all the same."""
        ...


@dataclass(frozen=True)
class Runtime:
    engine: EngineClient
    prompts: Prompts
    media: MediaSource
    vocabulary: Vocabulary
    make_decoder: MakeDecoder
    facts: ModelFacts
    think: ThinkTokens | None
    """None: the model does not think aloud, or not between these tokens."""
    created: int
    """Unix time at which the model was loaded."""
    response_template: ResponseTemplate | None = None
    """The checkpoint's own, by which its answers are read."""
    template_ids: frozenset[int] = frozenset()
    """Special tokens that the response template looks for."""

    async def close(self) -> None:
        self.media.close()
        await self.engine.close()
