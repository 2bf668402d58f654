"""What the server's process and the engine's say to each other: msgspec structures, never pickle.

Array contents travel as raw frames beside the message (see `engine.transport`), so nothing is copied into
msgpack.
"""

import msgspec

from models.processing.base import MediaLayout

MAX_CHOICES = 128
"""Answers to one request: as many as OpenAI's API gives."""


class SamplingParams(msgspec.Struct, frozen=True, omit_defaults=True):
    """How tokens are chosen. The meaning of a token depends only on (seed, choice, output position)."""

    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    """0: not limited."""
    min_p: float = 0.0
    seed: int = 0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: dict[int, float] = {}
    num_top_logprobs: int | None = None
    """None: no log-probabilities; 0: the chosen token's only. They are of the model's raw distribution
    (temperature 1, no penalties)."""
    min_tokens: int = 0
    stop_token_ids: tuple[int, ...] = ()
    """Ends the answer with finish reason "stop"; the stop token itself is reported but is not text."""


class Grammar(msgspec.Struct, frozen=True):
    """What the answer must match. kind: "json_schema", "json_object", "regex", "lark" or "structural"
    (llguidance's own JSON)."""

    kind: str
    definition: str = ""


class MediaItem(msgspec.Struct, frozen=True):
    """One picture or sound of a request, known by key and layout; its tensors come later, and only if asked
    for."""

    key: bytes
    kind: str
    layout: MediaLayout


# Commands, server to engine.


class Generate(msgspec.Struct, frozen=True, tag=True):
    """ids: int32 little-endian. spans: (start, end, index into media, offset into the content)."""

    request_id: str
    ids: bytes
    namespace: bytes
    sampling: SamplingParams
    num_choices: int = 1
    spans: tuple[tuple[int, int, int, int], ...] = ()
    media: tuple[MediaItem, ...] = ()
    grammar: Grammar | None = None


class Abort(msgspec.Struct, frozen=True, tag=True):
    """Nobody waits for the request any more. Unknown or finished ids are ignored."""

    request_id: str


class StopChoice(msgspec.Struct, frozen=True, tag=True):
    """This choice has said enough (a stop string, say): an end like any other. Unknown or finished ones are
    ignored."""

    request_id: str
    choice: int


class ArraySpec(msgspec.Struct, frozen=True):
    """One array in the raw frames that follow the message, in order."""

    name: str
    dtype: str
    shape: tuple[int, ...]


class MediaPrepared(msgspec.Struct, frozen=True, tag=True):
    """Answer to MediaNeeded. From here until it is encoded the engine owns the arrays."""

    namespace: bytes
    key: bytes
    arrays: tuple[ArraySpec, ...]


class MediaUnavailable(msgspec.Struct, frozen=True, tag=True):
    """Answer to MediaNeeded when this request's copy can't be prepared: fails that request, not its
    followers."""

    request_id: str
    namespace: bytes
    key: bytes
    code: str
    message: str


class Shutdown(msgspec.Struct, frozen=True, tag=True):
    """Stop accepting; finish nothing; leave."""


class Ping(msgspec.Struct, frozen=True, tag=True):
    """Answered by Pong between two steps: tells a loop that waits from one that hangs."""


Command = Generate | Abort | StopChoice | MediaPrepared | MediaUnavailable | Shutdown | Ping

# Events, engine to server.


class TokenLogprobs(msgspec.Struct, frozen=True):
    """chosen: log-probability of the token; top: (token id, log-probability), best first. Finite: clamped at
    -9999."""

    chosen: float
    top: tuple[tuple[int, float], ...] = ()


class TokensGenerated(msgspec.Struct, frozen=True, tag=True):
    """New tokens of one choice. finish_reason: "" while it goes on, else "stop" or "length".

    num_cached_tokens: prompt tokens that choice 0 did not compute at its first admission; -1 for other
    choices.
    """

    request_id: str
    choice: int
    token_ids: tuple[int, ...]
    finish_reason: str = ""
    num_cached_tokens: int = -1
    logprobs: tuple[TokenLogprobs, ...] = ()


class RequestFailed(msgspec.Struct, frozen=True, tag=True):
    """The request ends with all its choices. code: "invalid_request", "context_length_exceeded",
    "media_too_large", "invalid_grammar", "overloaded", "internal", or a media code that MediaUnavailable
    carried. param: the field, if any."""

    request_id: str
    code: str
    message: str
    param: str | None = None


class MediaNeeded(msgspec.Struct, frozen=True, tag=True):
    """Asks one of the waiting requests for prepared tensors: a single flight for each (namespace, key)."""

    request_id: str
    namespace: bytes
    key: bytes


class EngineInfo(msgspec.Struct, frozen=True, tag=True):
    """Sent once, when the model is loaded."""

    architecture: str
    dtype: str
    device: str
    attention_backend: str
    max_model_len: int
    num_blocks: int
    block_size: int
    encoder_cache_bytes: int
    vocab_size: int


class EngineFailed(msgspec.Struct, frozen=True, tag=True):
    """The engine can't start (or go on). exit_code 2: the user's settings are at fault."""

    message: str
    exit_code: int = 1


class LoadProgress(msgspec.Struct, frozen=True, tag=True):
    done_bytes: int
    total_bytes: int


class EngineStats(msgspec.Struct, frozen=True, tag=True):
    """After steps, at most every 100 ms, and whenever the engine becomes idle. Counters only rise."""

    num_running: int = 0
    num_waiting: int = 0
    num_free_blocks: int = 0
    num_blocks: int = 0
    encoder_cache_used_bytes: int = 0
    num_steps: int = 0
    num_computed_prompt_tokens: int = 0
    num_cached_prompt_tokens: int = 0
    num_generated_tokens: int = 0
    num_encoder_runs: int = 0
    num_encoder_hits: int = 0
    num_media_requested: int = 0
    num_preemptions: int = 0
    num_evicted_blocks: int = 0
    num_aborted: int = 0
    num_failed: int = 0
    num_finished: int = 0
    num_cached_blocks: int = 0
    """A gauge: blocks whose content a later prompt can find, held or free."""


class Pong(msgspec.Struct, frozen=True, tag=True):
    pass


Event = (
    TokensGenerated
    | RequestFailed
    | MediaNeeded
    | EngineInfo
    | EngineFailed
    | LoadProgress
    | EngineStats
    | Pong
)
