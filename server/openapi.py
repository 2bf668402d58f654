"""This server's own API as an OpenAPI document, made from the wire types and the field table."""

from typing import Any

from pydantic.json_schema import models_json_schema

from server.schema.chat import ChatRequest
from server.schema.completions import CompletionRequest
from server.schema.responses import ResponseRequest
from server.schema.tokenize import DetokenizeRequest, TokenizeRequest
from server.schema.transcriptions import TranscriptionRequest
from server.schema.wire import Wire

_JSON, _EVENTS, _TEXT = "application/json", "text/event-stream", "text/plain"
_POSTS: dict[str, tuple[type[Wire], str, tuple[str, ...]]] = {
    "/v1/chat/completions": (ChatRequest, _JSON, (_JSON, _EVENTS)),
    "/v1/completions": (CompletionRequest, _JSON, (_JSON, _EVENTS)),
    "/v1/responses": (ResponseRequest, _JSON, (_JSON, _EVENTS)),
    "/v1/audio/transcriptions": (TranscriptionRequest, "multipart/form-data", (_JSON, _EVENTS, _TEXT)),
    "/tokenize": (TokenizeRequest, _JSON, (_JSON,)),
    "/detokenize": (DetokenizeRequest, _JSON, (_JSON,)),
}
"""Request's type, its content type, and those of the answer."""
_GETS = {
    "/health": _JSON,
    "/ready": _JSON,
    "/metrics": _TEXT,
    "/stats": _JSON,
    "/openapi.json": _JSON,
    "/v1/models": _JSON,
}

ERROR = {
    "type": "object",
    "required": ["error"],
    "additionalProperties": False,
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "additionalProperties": False,
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
        }
    },
}


def document() -> dict[str, Any]:
    """OpenAPI 3.1."""
    models = [(model, "validation") for model, _, _ in _POSTS.values()]
    refs, definitions = models_json_schema(models, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]
    paths = {path: {"get": _operation((answer,))} for path, answer in _GETS.items()}
    paths["/v1/models/{model}"] = {"get": _operation((_JSON,)) | {"parameters": [_MODEL]}}
    for path, (model, content_type, answers) in _POSTS.items():
        body = {"required": True, "content": {content_type: {"schema": refs[model, "validation"]}}}
        paths[path] = {"post": _operation(answers) | {"requestBody": body}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Intarsia", "version": "1"},
        "paths": paths,
        "components": {
            "schemas": {**definitions["$defs"], "Error": ERROR},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}],
    }


_MODEL = {"name": "model", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def _operation(answers: tuple[str, ...]) -> dict[str, Any]:
    refused = {
        "description": "Refused or failed; the error says why.",
        "content": {_JSON: {"schema": {"$ref": "#/components/schemas/Error"}}},
    }
    schemas = {_JSON: {"type": "object"}, _EVENTS: {"type": "string"}, _TEXT: {"type": "string"}}
    answered = {
        "description": "Answered.",
        "content": {content_type: {"schema": schemas[content_type]} for content_type in answers},
    }
    return {"responses": {"200": answered, "4XX": refused, "5XX": refused}}
