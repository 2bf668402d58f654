"""Wire type of POST /v1/completions."""

from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag

from server.schema import request_fields
from server.schema.sampling import SamplingFields, TokenId

MAX_PROMPTS = 128


def _prompt_form(prompt: Any) -> str:
    first = prompt[0] if isinstance(prompt, list) and prompt else None
    if isinstance(prompt, str):
        return "<text>"
    return "<texts>" if isinstance(first, str) else "<lists>" if isinstance(first, list) else "<ids>"


TokenIds = Annotated[list[TokenId], Field(min_length=1)]
Prompt = Annotated[
    Annotated[str, Tag("<text>")]
    | Annotated[list[str], Tag("<texts>"), Field(max_length=MAX_PROMPTS)]
    | Annotated[TokenIds, Tag("<ids>")]
    | Annotated[list[TokenIds], Tag("<lists>"), Field(max_length=MAX_PROMPTS)],
    Discriminator(_prompt_form),
]


class CompletionRequest(SamplingFields):
    section = request_fields.COMPLETION
    model: str
    prompt: Prompt
    max_tokens: int = Field(16, ge=1)
    logprobs: int | None = Field(None, ge=0, le=5)
