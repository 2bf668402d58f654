"""How much to think: what the chat template reads of it is set, what it does not read is refused."""

import dataclasses
from typing import Any

import httpx
import pytest

from server.template import variables_of
from tests.server.chat_client import post
from tests.server.checkpoints import CHATML
from tests.server.fakes import Bench, chat
from tests.server.test_responses import body
from tests.server.test_responses import post as post_response


def bench(*variables: str) -> Bench:
    made = Bench()
    runtime = made.state.serving()
    facts = runtime.facts._replace(template_variables=frozenset(variables))
    made.state.runtime = dataclasses.replace(runtime, facts=facts)
    return made


def ask(served: Bench, api: str, effort: str | None, **more: Any) -> httpx.Response:
    if api == "chat":
        return post(served, chat(reasoning_effort=effort, **more))
    return post_response(served, body(reasoning={"effort": effort}, **more))


@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize(
    ("variables", "effort", "kwargs"),
    [
        (["reasoning_effort"], "high", {"reasoning_effort": "high"}),
        (["reasoning_effort"], None, {}),
        (["enable_thinking"], "none", {"enable_thinking": False}),
        (["enable_thinking"], "low", {"enable_thinking": True}),
        (["thinking", "messages"], "none", {"thinking": False}),
        (
            ["reasoning_effort", "enable_thinking"],
            "none",
            {"reasoning_effort": "none", "enable_thinking": False},
        ),
        (["messages", "tools"], "medium", {}),
        ([], None, {}),
    ],
)
def test_effort_reaches_the_template(variables: Any, effort: Any, kwargs: Any, api: str) -> None:
    served = bench(*variables)
    assert ask(served, api, effort, chat_template_kwargs={"other": 1}).status_code == 200
    assert served.prompts.seen[0]["kwargs"] == {"other": 1, **kwargs}


@pytest.mark.parametrize(("api", "param"), [("chat", "reasoning_effort"), ("responses", "reasoning.effort")])
def test_effort_that_nothing_heeds_is_refused(api: str, param: str) -> None:
    for effort in ("none", "minimal", "low", "high", "xhigh", "max"):
        error = ask(bench("messages", "tools"), api, effort).json()["error"]
        assert (error["param"], error["code"]) == (param, "unsupported_parameter")


@pytest.mark.parametrize(("api", "param"), [("chat", "reasoning_effort"), ("responses", "reasoning.effort")])
def test_contradictions_are_refused(api: str, param: str) -> None:
    served = bench("enable_thinking")
    error = ask(served, api, "none", chat_template_kwargs={"enable_thinking": True}).json()["error"]
    assert error["param"] == param
    assert ask(served, api, "none", chat_template_kwargs={"enable_thinking": False}).status_code == 200


def test_what_a_template_reads() -> None:
    assert "enable_thinking" in variables_of(CHATML)
    kept = "{% if not thinking is defined %}{% set thinking = false %}{% endif %}{{ thinking }}"
    assert variables_of(kept) == {"thinking"}
    own = "{% for thinking in messages %}{% set enable_thinking = 1 %}{{ enable_thinking }}{% endfor %}"
    assert variables_of(own) == {"messages"}
    marked = "{% generation %}{{ reasoning_effort | default('x') }}{% endgeneration %}{{ raise_exception }}"
    assert variables_of(marked) - {"raise_exception"} == {"reasoning_effort"}
    assert variables_of("") == frozenset()
