"""Wire type of POST /v1/audio/transcriptions. It arrives as a form, so numbers and flags are text."""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, field_validator
from pydantic_core import PydanticCustomError

from server.schema import transcriptions_fields as fields
from server.schema.sampling import CacheSalt
from server.schema.wire import Wire

Language = Annotated[str, StringConstraints(pattern=r"^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,3}$")]


class TranscriptionRequest(Wire):
    section = fields.TRANSCRIPTION
    file: bytes
    model: str
    prompt: str | None = None
    language: Language | None = None
    response_format: Literal["json", "text"] = "json"
    temperature: float = Field(0.0, ge=0, le=1, strict=False)
    stream: bool = Field(False, strict=False)
    include: list[Literal["logprobs"]] | None = Field(None, max_length=8)
    cache_salt: CacheSalt | None = None

    @field_validator("file", mode="before")
    @classmethod
    def _is_a_file(cls, value: Any) -> Any:
        if isinstance(value, bytes):
            return value
        raise PydanticCustomError("not_a_file", "Must be sent as one file, with a file name.")
