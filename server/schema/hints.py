"""What clients say for the keeper's or the cache's sake: it is checked, and changes no answer."""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from server.schema.wire import Wire


class Hints(Wire):
    metadata: (
        dict[
            Annotated[str, StringConstraints(max_length=64)],
            Annotated[str, StringConstraints(max_length=512)],
        ]
        | None
    ) = Field(None, max_length=16)
    safety_identifier: str | None = Field(None, max_length=64)
    prompt_cache_key: str | None = Field(None, max_length=1024)
    prompt_cache_options: dict[str, Any] | None = None
    prompt_cache_retention: Literal["in_memory", "in-memory", "24h"] | None = None
