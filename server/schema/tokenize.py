"""Wire types of POST /tokenize and POST /detokenize."""

from typing import Any

from pydantic import Field

from server.schema import request_fields
from server.schema.chat import MAX_PARTS, Message, Tool
from server.schema.sampling import TokenId
from server.schema.wire import Wire

MAX_CHARACTERS = 1_000_000
"""Of a text; longer ones than any context would hold a thread for seconds."""
MAX_TOKENS = 500_000


class TokenizeRequest(Wire):
    section = request_fields.TOKENIZE
    model: str | None = None
    prompt: str | None = Field(None, max_length=MAX_CHARACTERS)
    messages: list[Message] | None = Field(None, min_length=1, max_length=MAX_PARTS)
    tools: list[Tool] | None = Field(None, max_length=128)
    chat_template_kwargs: dict[str, Any] | None = Field(None, max_length=32)
    add_generation_prompt: bool = True


class DetokenizeRequest(Wire):
    section = request_fields.DETOKENIZE
    model: str | None = None
    tokens: list[TokenId] = Field(max_length=MAX_TOKENS)
