"""The fields that both completion endpoints share: how tokens are chosen, how many answers, and streaming."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from server.schema import request_fields
from server.schema.wire import Wire

StopString = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
TokenId = Annotated[int, Field(ge=0, le=2**31 - 1)]
"""Bounded here, since a message names the one that the model lacks."""
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
CacheSalt = Annotated[str, StringConstraints(pattern=r"^[\x21-\x7e]{1,256}$")]


class StreamOptions(Wire):
    section = request_fields.STREAM_OPTIONS
    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class SamplingFields(Wire):
    temperature: float = Field(1.0, ge=0, le=2)
    top_p: float = Field(1.0, gt=0, le=1)
    frequency_penalty: float = Field(0.0, ge=-2, le=2)
    presence_penalty: float = Field(0.0, ge=-2, le=2)
    logit_bias: dict[str, Annotated[float, Field(ge=-100, le=100)]] | None = Field(None, max_length=4096)
    seed: int | None = Field(None, ge=-(2**63), le=2**63 - 1)
    stop: StopString | list[StopString] | None = None
    n: int = Field(1, ge=1, le=128)
    stream: bool = False
    stream_options: StreamOptions | None = None
    user: str | None = Field(None, max_length=4096)
    top_k: int = Field(0, ge=-1, le=2**31 - 1)
    min_p: float = Field(0.0, ge=0, le=1)
    repetition_penalty: float = Field(1.0, ge=0.001, le=10)
    stop_token_ids: list[TokenId] | None = Field(None, max_length=64)
    ignore_eos: bool = False
    min_tokens: int = Field(0, ge=0, le=2**31 - 1)
    cache_salt: CacheSalt | None = None
