"""The server's own description of itself: complete, true, and a basis for trying everything it allows."""

import warnings
from typing import Any

import hypothesis
import jsonschema_rs
import pytest
import schemathesis
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from starlette.routing import Route

from server.app import _routes, create_app
from server.openapi import ERROR, document
from server.schema import request_fields
from server.schema.chat import ChatRequest
from tests.server.chat_client import post
from tests.server.fakes import Bench, chat, image
from tests.server.test_chat_refusals import BAD

NOT_DESCRIBED = {"/"}
"""The web page is no part of the API."""


def test_every_route_is_described() -> None:
    described = {path: set(methods) for path, methods in document()["paths"].items()}
    for route in _routes():
        if not isinstance(route, Route) or route.path in NOT_DESCRIBED:
            continue
        path = route.path.replace("{model:path}", "{model}")
        assert described.pop(path) == {method.lower() for method in route.methods or () if method != "HEAD"}
    assert not described


def validator(name: str) -> jsonschema_rs.Draft202012Validator:
    schemas = document()["components"]["schemas"]
    return jsonschema_rs.Draft202012Validator(
        {"$ref": f"#/components/schemas/{name}", "components": {"schemas": schemas}}
    )


GOOD: list[dict[str, Any]] = [
    chat(),
    chat([{"type": "text", "text": "x"}, image(), image() | {"uuid": "a"}], n=1, stop=["a"], seed=None),
    chat(store=False, service_tier="auto", modalities=["text"], verbosity=None),
    chat(tools=[{"type": "function", "function": {"name": "f", "strict": True}}], tool_choice="auto"),
    chat(response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {}}}),
    chat(structured_outputs={"choice": ["a"]}),
    chat() | {name: None for name in ChatRequest.model_fields if name not in ("model", "messages")},
]


@pytest.mark.parametrize("body", GOOD, ids=lambda body: ",".join(sorted(body))[:60])
def test_what_is_taken_is_described(body: dict[str, Any]) -> None:
    assert post(Bench(), body).status_code == 200
    validator("ChatRequest").validate(body)


MEANING = {
    "chat_template_kwargs",
    "logit_bias",
    "max_tokens",
    "messages",
    "messages[0].content",
    "messages[0].content[0].audio_url",
    "messages[0].content[0].image_url",
    "messages[0].content[0].image_url.url",
    "messages[0].content[0].input_audio.data",
    "messages[0].tool_call_id",
    "metadata",
    "min_tokens",
    "reasoning_effort",
    "response_format.json_schema",
    "stop",
    "stop_token_ids",
    "stream_options",
    "tool_choice",
    "tools",
    "top_logprobs",
}
"""Places whose faults lie in what fields mean together, which a schema does not say."""


@pytest.mark.parametrize(("body", "param"), BAD, ids=lambda value: str(value)[:50])
def test_what_is_refused_for_its_form_is_not_described(body: dict[str, Any], param: str) -> None:
    if param not in MEANING:
        assert not validator("ChatRequest").is_valid(chat() | body)


def test_every_error_is_the_one_described() -> None:
    for body in (b"", b"{}", b'{"model": "x", "messages": []}'):
        jsonschema_rs.Draft202012Validator(ERROR).validate(post(Bench(), body).json())


def test_the_notes_are_in_the_document() -> None:
    properties = document()["components"]["schemas"]["ChatRequest"]["properties"]
    for field in request_fields.CHAT.fields:
        assert field.name in properties
        assert not field.note or properties[field.name]["description"] == field.note


def _schema() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return schemathesis.openapi.from_asgi("/openapi.json", create_app(Bench().state))


OPERATIONS = sorted(
    (method.upper(), path) for path, methods in document()["paths"].items() for method in methods
)


@pytest.mark.parametrize("mode", GenerationMode)
@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_nothing_is_a_failure_of_the_server(method: str, path: str, mode: GenerationMode) -> None:
    """Requests as the document allows them, and such as it does not."""
    operation = _schema()[path][method]
    if mode is GenerationMode.NEGATIVE and method == "GET" and "{" not in path:
        pytest.skip("nothing in it that could be wrong")

    @hypothesis.settings(
        max_examples=60,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    def fuzz(case: Any) -> None:
        response = case.call()
        case.validate_response(response, checks=[not_a_server_error])
        assert response.status_code < 500, response.text
        if response.status_code >= 400:
            jsonschema_rs.Draft202012Validator(ERROR).validate(response.json())

    fuzz()
