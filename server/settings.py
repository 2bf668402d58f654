"""Every setting, once: this model is the flags, the environment, the file and the reference page.

Precedence: flag, then INTARSIA_* variable, then the TOML file of --config, then the default.
Knows names, defaults and ranges; how flags are parsed is `server.flags`'.
"""

import os
import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ByteSize, ConfigDict, Field
from pydantic_core import PydanticCustomError

DEMO_MODEL = Path(__file__).resolve().parent.parent / "models" / "demo"


def _comma_separated(value: object) -> object:
    return (
        tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value
    )


def _no_blanks(words: tuple[str, ...]) -> tuple[str, ...]:
    if not all(word.strip() for word in words):
        raise PydanticCustomError("blank", "one of its values is empty")
    return words


def _not_blank(value: object) -> object:
    """What is given must say something: a shell's variable that is not set is no wish for anything."""
    if isinstance(value, str) and not value.strip(" ,"):
        raise PydanticCustomError("blank", "it is given, but empty; leave it out for the default")
    return value


def _keys(entries: tuple[str, ...]) -> tuple[str, ...]:
    """Never a word of the key itself in what is said of it."""
    for name, key in map(_tenant, entries):
        if not name or not key or key != key.strip():
            raise PydanticCustomError("key", "a key is `key` or `tenant:key`, without blanks around them")
    return entries


_ORIGIN = re.compile(r"\*|null|file://|(?P<scheme>[a-z][a-z0-9+.\-]*)://[^\s/?#*@,]+")
_OWN_PORTS = {"http": ":80", "https": ":443"}


def _origins(words: tuple[str, ...]) -> tuple[str, ...]:
    """As browsers write them, since they are compared as they are."""
    for word in words:
        match = _ORIGIN.fullmatch(word)
        if match is None or not word.isascii() or word != word.lower():
            raise PydanticCustomError(
                "origin", "an origin is `https://host` or `https://host:port`, lower case, no path; or `*`"
            )
        if word.endswith(_OWN_PORTS.get(match["scheme"], " ")):
            raise PydanticCustomError("origin", "browsers leave a scheme's own port out of an origin")
    return words


Words = Annotated[tuple[str, ...], AfterValidator(_no_blanks), BeforeValidator(_comma_separated)]
"""Repeatable as a flag; separated by commas in the environment."""
Keys = Annotated[Words, AfterValidator(_keys), BeforeValidator(_not_blank)]
Origins = Annotated[Words, AfterValidator(_origins)]


class Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    model: str = Field(
        "", description="Checkpoint directory or hub id. Empty: the small model that ships with the program."
    )
    served_model_name: Words = Field(
        (),
        description="Names that requests may use. Default: the last part of MODEL, and a hub id as a whole.",
    )
    load_format: Literal["auto", "random"] = Field(
        "auto",
        description="`random`: weights are drawn, and of the checkpoint all but its weights is read.",
    )
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        "auto", description="Type of weights and KV cache."
    )
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="Where the model runs.")
    threads: int = Field(
        0, ge=0, le=1024, description="CPU threads of a step. 0: one for each core that is free."
    )
    deterministic: bool = Field(
        False,
        description="Refuse to start unless answers are the same bytes, in bfloat16 too, however they are "
        "batched, cached or cut.",
    )
    attention_backend: Literal["auto", "native", "triton", "sdpa", "reference"] = Field(
        "auto",
        description="How attention is computed. Auto: native on a CPU that can, triton on a GPU where it "
        "agrees with sdpa at start, else sdpa.",
    )
    cuda_graphs: bool = Field(
        True,
        description="On a GPU with triton attention, launch decode steps as CUDA graphs, if a check at start "
        "shows that they compute the same.",
    )

    max_model_len: int | None = Field(
        None, ge=16, description="Longest sequence in tokens. Default: the checkpoint's, or what fits."
    )
    kv_cache_memory: ByteSize | Literal["auto"] = Field(
        "auto", description="Memory for keys and values, such as `2GiB`."
    )
    encoder_cache_memory: ByteSize | Literal["auto"] = Field(
        "auto",
        description="Memory for encoded pictures and sounds. Auto: 256 MiB, more where a picture needs it.",
    )
    max_num_seqs: int = Field(64, ge=1, le=4096, description="Sequences that run at once.")
    max_num_batched_tokens: int = Field(2048, ge=16, description="Tokens in one step at most.")

    host: Annotated[str, BeforeValidator(_not_blank)] = Field(
        "127.0.0.1", description="Address to listen on."
    )
    port: int = Field(8000, ge=0, le=65535, description="Port to listen on. 0: any free one.")
    api_key: Keys = Field(
        (),
        description="A key that requests must carry, as `key` or `tenant:key`. None: open to all. A variable "
        "or flag that is there but empty is refused, so that a secret that went missing opens nothing.",
    )
    allowed_origins: Origins = Field(
        (),
        description="Web pages of other origins that may ask, such as `https://chat.example`; `*`: all. "
        "None: browsers show answers to the page of this server only. Keys are asked for all the same.",
    )
    max_queue: int = Field(
        256,
        ge=0,
        description="Requests that may wait for a place; more get 503. A tenant whose share of it the others "
        "have taken may still wait.",
    )
    queue_timeout: float = Field(
        60.0, gt=0, description="Seconds that a request may wait for a place; longer gets 503."
    )
    max_body_bytes: ByteSize = Field(ByteSize(64 << 20), gt=0, description="Longest request body.")
    max_open_body_bytes: ByteSize = Field(
        ByteSize(1 << 30),
        gt=0,
        description="Request bodies held at once, all together; beyond it 503. A tenant whose "
        "share of it the others have taken may still send: n tenants hold 1 + 1/2 + ... + 1/n times this at "
        "most.",
    )
    body_timeout: float = Field(60.0, gt=0, description="Seconds in which a whole request must have arrived.")
    send_timeout: float = Field(
        30.0,
        gt=0,
        description="Seconds that a stream may wait for its reader before it is cut. Of a whole answer, half "
        "of what is left must be taken within them.",
    )
    engine_timeout: float = Field(
        300.0,
        gt=2,
        description="Seconds without a sign of life after which an engine is replaced. Longer than any step.",
    )
    drain_timeout: float = Field(
        30.0,
        ge=0,
        description="Seconds that accepted requests get to finish after SIGTERM or Ctrl-C. A second one ends "
        "them.",
    )
    allow_unknown_fields: bool = Field(
        False, description="Ignore request fields that no one has published, instead of refusing them."
    )

    allowed_media_domains: Words = Field(
        (), description="Hosts that media may be fetched from. None: only data URLs."
    )
    allowed_media_path: Annotated[Path | None, BeforeValidator(_not_blank)] = Field(
        None, description="Directory that file:// media may come from. None: no files."
    )
    max_media_items: int = Field(64, ge=0, description="Pictures and sounds in one request.")
    max_media_bytes: ByteSize = Field(
        ByteSize(32 << 20), gt=0, description="Encoded bytes of one picture or sound."
    )
    max_image_pixels: int = Field(
        36_000_000, gt=0, description="Pixels of one picture, from its header, before it is decoded."
    )
    max_request_pixels: int = Field(144_000_000, gt=0, description="Pixels of all pictures of a request.")
    named_media_memory: ByteSize = Field(
        ByteSize(256 << 20),
        ge=0,
        description="Encoded pictures and sounds kept because requests gave them a `uuid`.",
    )
    max_audio_seconds: float = Field(600.0, gt=0, description="Length of one sound; decoding stops there.")

    transcription_prompt: str | None = Field(
        None,
        min_length=1,
        description="What the model is asked to do with the sound of a transcription request. None: what the "
        "checkpoint's generation_config.json says under this name, else a sentence for any model.",
    )

    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="What is logged.")
    debug: bool = Field(False, description="Check the cache's books whenever the engine is idle; slower.")

    @property
    def model_path(self) -> str:
        return self.model or str(DEMO_MODEL)

    @property
    def served_names(self) -> tuple[str, ...]:
        return self.served_model_name or _default_names(self.model)

    @property
    def tenants(self) -> tuple[tuple[str, str], ...]:
        """(tenant, key) of every API key. A key without a name is its own tenant."""
        return tuple(_tenant(entry) for entry in self.api_key)


def _default_names(model: str) -> tuple[str, ...]:
    if not model:
        return ("intarsia-demo",)
    directory = Path(model).expanduser()
    if directory.is_dir():  # "." has a name too, and a link is called what it is called
        return (Path(os.path.abspath(directory)).name or "model",)
    return tuple(dict.fromkeys((Path(model).name, model)))


def _tenant(entry: str) -> tuple[str, str]:
    name, colon, key = entry.partition(":")
    return (name, key) if colon else (f"key {entry}", entry)
