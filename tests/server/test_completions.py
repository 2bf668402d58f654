"""POST /v1/completions, /tokenize, /detokenize, /v1/models and /metrics."""

import asyncio
import json
from typing import Any

import httpx
import openai
import pytest

from engine.messages import TokenLogprobs, TokensGenerated
from server.prompt import PromptError
from server.tokenizer import Untokenizable
from tests.server.chat_client import client
from tests.server.fakes import VOCAB_SIZE, Bench, chat, say
from tests.server.live import serving


def ask(bench: Bench, path: str, body: dict[str, Any] | None = None) -> httpx.Response:
    async def run() -> httpx.Response:
        async with client(bench) as http:
            return await (http.get(path) if body is None else http.post(path, json=body))

    return asyncio.run(run())


def completion(**fields: Any) -> dict[str, Any]:
    return {"model": "bytes", "prompt": "hi", **fields}


@pytest.mark.parametrize("prompt", ["hi", [104, 105], ["hi"], [[104, 105]]])
def test_prompts_of_every_form(prompt: Any) -> None:
    bench = Bench()
    body = ask(bench, "/v1/completions", completion(prompt=prompt)).json()
    assert body["object"] == "text_completion"
    assert body["choices"][0] == {"index": 0, "text": "Hello", "logprobs": None, "finish_reason": "stop"}
    assert body["usage"]["prompt_tokens"] == 2
    assert bench.engine.requests[0].sampling.max_tokens == 16
    bench.assert_idle()


def test_many_prompts_and_answers_keep_their_places() -> None:
    def script(request: Any) -> list[Any]:
        name = chr(request.ids[0])
        return [*say(name + "0", choice=0), *say(name + "1", choice=1)]

    body = completion(prompt=["a", "b", "c"], n=2)
    whole = ask(Bench(script), "/v1/completions", body).json()
    assert [choice["text"] for choice in whole["choices"]] == ["a0", "a1", "b0", "b1", "c0", "c1"]
    with serving(Bench(script)) as port:
        official = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="x", max_retries=0)
        texts = [""] * 6
        usage = None
        for part in official.completions.create(**body, stream=True, stream_options={"include_usage": True}):
            usage = part.usage
            for choice in part.choices:
                texts[choice.index] += choice.text
    assert texts == [choice["text"] for choice in whole["choices"]]
    assert usage is not None
    assert usage.to_dict() == whole["usage"]


def test_a_stream_answers_all_prompts_at_once() -> None:
    def script(request: Any) -> list[Any]:
        return [*say("b")] if request.ids[0] == ord("b") else [0.2, *say("a")]

    bench = Bench(script)
    text = ask(bench, "/v1/completions", completion(prompt=["a", "b"], stream=True)).text
    order = [json.loads(part[6:])["choices"][0]["index"] for part in text.split("\n\n")[:-2]]
    assert order == sorted(order, reverse=True)
    assert set(order) == {0, 1}
    bench.assert_idle()


def test_a_prompt_that_fails_in_a_stream_ends_the_others() -> None:
    def script(request: Any) -> list[Any]:
        return [*say("b")[:1], RuntimeError("broken")] if request.ids[0] == ord("b") else [9.0, *say("a")]

    bench = Bench(script)
    with serving(bench) as port:
        official = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="x", max_retries=0)
        with pytest.raises(openai.APIError):
            list(official.completions.create(**completion(prompt=["a", "b", "ccc"]), stream=True))
    assert bench.engine.num_aborted == 2
    bench.assert_idle()


def test_logprobs_have_offsets() -> None:
    logprobs = ask(Bench(), "/v1/completions", completion(logprobs=2)).json()["choices"][0]["logprobs"]
    assert logprobs["tokens"] == list("Hello")
    assert logprobs["text_offset"] == [0, 1, 2, 3, 4]
    assert logprobs["token_logprobs"] == [-0.5] * 5
    assert logprobs["top_logprobs"][0] == {"H": -0.5, "A": -1.5}


@pytest.mark.parametrize(
    ("top", "shown"),
    [
        (((65, -0.1), (66, -0.2)), {"A": -0.1, "B": -0.2, "H": -7.0}),
        (((65, -0.1), (ord("H"), -7.0)), {"A": -0.1, "H": -7.0}),
        ((), {"H": -7.0}),
    ],
)
def test_the_token_itself_is_always_among_the_best(top: Any, shown: dict[str, float]) -> None:
    event = TokensGenerated("", 0, (ord("H"),), "length", 0, (TokenLogprobs(-7.0, top),))
    asked = completion(logprobs=len(top))
    (choice,) = ask(Bench(lambda _: [event]), "/v1/completions", asked).json()["choices"]
    (found,) = choice["logprobs"]["top_logprobs"]
    assert list(found.items()) == list(shown.items())


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": []}, "prompt"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": [[]]}, "prompt[0]"),
        ({"prompt": [VOCAB_SIZE]}, "prompt"),
        ({"prompt": [10**400]}, "prompt[0]"),
        ({"prompt": [[1], [1, 10**400]]}, "prompt[1][1]"),
        ({"prompt": [1, "a"]}, "prompt[1]"),
        ({"prompt": "x" * 500}, "prompt"),
        ({"prompt": 5}, "prompt"),
        ({"prompt": ["a"] * 129}, "prompt"),
        ({"prompt": ["a", "b"], "n": 128}, "n"),
        ({"best_of": 2}, "best_of"),
        ({"echo": True}, "echo"),
        ({"suffix": "x"}, "suffix"),
        ({"logprobs": 6}, "logprobs"),
        ({"max_tokens": 0}, "max_tokens"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_refusals(fields: dict[str, Any], param: str) -> None:
    bench = Bench()
    response = ask(bench, "/v1/completions", completion() | fields)
    assert response.status_code == 400, response.text
    assert response.json()["error"]["param"] == param
    assert len(response.json()["error"]["message"]) < 200
    bench.assert_idle()


def test_one_prompt_that_fails_fails_the_request() -> None:
    def script(request: Any) -> list[Any]:
        return [RuntimeError("0x7f0011223344")] if request.ids[0] == ord("b") else [*say("x"), 5.0]

    bench = Bench(script)
    response = ask(bench, "/v1/completions", completion(prompt=["a", "b"]))
    assert response.status_code == 500
    assert "0x" not in response.text
    bench.assert_idle()


def test_tokens_there_and_back() -> None:
    body = ask(Bench(), "/tokenize", {"prompt": "hé"}).json()
    assert body["tokens"] == list("hé".encode())
    assert ask(Bench(), "/detokenize", {"tokens": body["tokens"]}).json() == {"prompt": "hé"}
    chatted = ask(
        Bench(), "/tokenize", {"messages": chat("hi")["messages"], "add_generation_prompt": False}
    ).json()
    assert chatted["count"] == 2
    assert ask(Bench(), "/tokenize", {}).status_code == 400
    assert ask(Bench(), "/detokenize", {"tokens": [-1]}).status_code == 400
    assert ask(Bench(), "/detokenize", {"tokens": [1], "model": "no"}).status_code == 404


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/tokenize", {"prompt": "x" * 1_000_001}),
        ("/tokenize", {"messages": [{"role": "user", "content": "x" * 500_001}] * 2}),
        ("/detokenize", {"tokens": [1] * 500_001}),
    ],
)
def test_what_takes_seconds_to_tokenise_is_refused(path: str, fields: dict[str, Any]) -> None:
    response = ask(Bench(), path, fields)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == next(iter(fields))


@pytest.mark.parametrize("fault", [PromptError("too odd"), Untokenizable("too much alike")])
@pytest.mark.parametrize("path", ["/tokenize", "/v1/completions"])
def test_a_text_that_gives_no_tokens_is_the_clients_fault(
    path: str, fault: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(prompt: str) -> None:
        raise fault

    bench = Bench()
    monkeypatch.setattr(bench.prompts, "render_text", fail)
    response = ask(bench, path, completion() if path == "/v1/completions" else {"prompt": "x"})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "prompt"
    bench.assert_idle()


@pytest.mark.parametrize(
    ("path", "fields"), [("/tokenize", {"prompt": "x"}), ("/detokenize", {"tokens": [1]})]
)
def test_tokens_wait_for_their_turn(path: str, fields: dict[str, Any]) -> None:
    async def run() -> None:
        bench = Bench()
        async with client(bench) as http, bench.state.admission.place("other", 1 << 20):
            asked = asyncio.ensure_future(http.post(path, json=fields))
            done, _ = await asyncio.wait([asked], timeout=0.2)
            assert not done
            assert bench.state.admission.num_waiting == 1
        assert (await asked).status_code == 200

    asyncio.run(run())


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
def test_the_first_token_is_timed_from_when_it_was_asked_for(path: str) -> None:
    async def run() -> str:
        bench = Bench()
        async with client(bench) as http:
            async with bench.state.admission.place("other", 1 << 20):
                body = completion() if path == "/v1/completions" else chat("hi")
                asked = asyncio.ensure_future(http.post(path, json=body))
                await asyncio.wait([asked], timeout=0.3)
            assert (await asked).status_code == 200
            return (await http.get("/metrics")).text

    (line,) = (line for line in asyncio.run(run()).splitlines() if "first_token_seconds_sum" in line)
    assert float(line.split()[1]) >= 0.1


def test_models() -> None:
    listed = ask(Bench(), "/v1/models").json()
    assert listed["object"] == "list"
    assert listed["data"][0]["id"] == "bytes"
    assert ask(Bench(), "/v1/models/bytes").json() == listed["data"][0]
    assert ask(Bench(), "/v1/models/other").status_code == 404


def test_the_ledger_balances() -> None:
    bench = Bench()
    ask(bench, "/v1/completions", completion())
    ask(bench, "/v1/completions", completion(prompt="x" * 500))
    page = ask(bench, "/metrics").text
    counts = {
        line.split()[0]: float(line.split()[1]) for line in page.splitlines() if not line.startswith("#")
    }
    assert counts["intarsia_requests_accepted_total"] == 2
    assert counts["intarsia_requests_completed_total"] == 1
    assert counts["intarsia_requests_failed_total"] == 1
    assert counts["intarsia_requests_open"] == 0
    assert counts["intarsia_completion_tokens_total"] == 6
    assert counts["intarsia_engine_free_blocks"] == 100
