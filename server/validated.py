"""What a request means, once everything about it has been checked that can be without its media and its
prompt.

Different types from the wire's: defaults are resolved, alternatives gone, and nothing here can be refused
any more for its form."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from engine.messages import Grammar, SamplingParams
from server.tools.form import TAGGED, CallForm

AS_MANY_AS_FIT = 2**31 - 1
"""max_tokens of a request that sets no limit; the engine cuts it to what the context leaves."""


class ModelFacts(NamedTuple):
    """What validation must know of the model that is served."""

    names: tuple[str, ...]
    vocab_size: int
    eos_token_ids: frozenset[int]
    media_kinds: frozenset[str]
    supports_tools: bool
    max_token_chars: int = 0
    """No token stands for more characters than this; 0: not known."""
    tag_ids: Mapping[str, int] = MappingProxyType({})
    """Tags of calls, thoughts and the like that are single tokens of this model."""
    call_form: CallForm | None = TAGGED
    """How the model writes calls; None: in a way that no grammar can enforce."""
    template_variables: frozenset[str] = frozenset()
    """What the chat template reads."""
    transcription_prompt: str = ""
    """What a sound that is to be transcribed is sent with."""


@dataclass(frozen=True)
class MediaRef:
    """One picture or sound, not yet read. `source` is a URL, base64 or a file's bytes; `param` is its place
    in the request; `uuid` the client's own name for it, with which the source may be empty."""

    kind: str
    source: str | bytes
    format: str | None
    options: str
    param: str
    uuid: str | None = None


@dataclass(frozen=True)
class AnswerOptions:
    """How to answer: what both completion endpoints share."""

    sampling: SamplingParams
    num_choices: int
    stop: tuple[str, ...]
    stream: bool
    include_usage: bool
    cache_salt: str | None


@dataclass(frozen=True)
class Conversation:
    """What the chat template is given. Content lists hold text parts and, for each of `media` in order, a
    media part."""

    messages: list[dict[str, Any]]
    media: tuple[MediaRef, ...]
    tools: list[dict[str, Any]] | None
    template_kwargs: dict[str, Any]
    param: str = "messages"
    """The request's field that it comes from."""


@dataclass(frozen=True)
class ValidatedChat:
    conversation: Conversation
    options: AnswerOptions
    model: str
    grammar: Grammar | None
    grammar_param: str
    """Where in the request a fault of the grammar lies."""
    single_tool_call: bool
    lazy_grammar: bool = False
    """The grammar leaves free what is said before and between tool calls, thoughts included."""
    calls_or_answer: bool = False
    """The grammar makes the whole answer either tool calls or structured text."""
