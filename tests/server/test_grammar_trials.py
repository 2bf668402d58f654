"""What is asked for as a grammar may take minutes to compile: it costs nobody else their answer."""

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from engine.client import RequestError
from engine.messages import Grammar
from server.errors import Unavailable
from server.grammar_trials import TOO_COSTLY, GrammarTrials
from tests.server.chat_client import URL, client, refused
from tests.server.fakes import Bench, chat

PATTERNS = [{"pattern": f"(a|b)*a(a|b){{{n}}}c"} for n in range(1, 22)]
ENDLESS = {"type": "string", "allOf": PATTERNS}
"""Each pattern more takes four times as long: this one, days."""


def schema(definition: Any) -> Grammar:
    return Grammar("json_schema", json.dumps(definition))


@pytest.fixture
def trials() -> Iterator[GrammarTrials]:
    made = GrammarTrials(trial_s=1.5, wait_s=60)
    yield made
    made.close()
    made.close()


def test_what_is_wrong_is_said_and_what_is_right_is_nothing(trials: GrammarTrials) -> None:
    async def main() -> list[str]:
        asked = [
            schema({"type": "object"}),
            schema({"type": "nonsense"}),
            Grammar("regex", "(?=x)"),
            Grammar("lark", 'start: "x"\n'),
            Grammar("lark", "start: " + "\u00e4" * 300_000),
        ]
        return [await trials.fault(grammar) for grammar in asked]

    right, nonsense, regex, lark, long = asyncio.run(main())
    assert (right, lark) == ("", "")
    assert "nonsense" in nonsense
    assert "regex" in regex
    assert 0 < len(long) <= 4000


def test_what_takes_too_long_is_given_up_while_others_are_answered(trials: GrammarTrials) -> None:
    async def main() -> tuple[str, list[str]]:
        ready = [trials.fault(schema({"minLength": n})) for n in range(2)]  # a process for each
        assert await asyncio.gather(*ready) == ["", ""]
        endless = asyncio.create_task(trials.fault(schema(ENDLESS)))
        await asyncio.sleep(0)
        others = [await trials.fault(schema({"maxLength": n})) for n in range(3)]
        assert not endless.done()
        return await endless, [*others, await trials.fault(schema({"maxLength": 3}))]

    endless, others = asyncio.run(main())
    assert endless == TOO_COSTLY
    assert others == [""] * 4
    assert len(trials._workers._idle) == 1, "whoever was busy with it is gone"


def test_what_took_too_long_is_tried_again_later(
    trials: GrammarTrials, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Grammar] = []

    def busy_once(grammar: Grammar) -> str:
        asked.append(grammar)
        return TOO_COSTLY if len(asked) == 1 else ""

    monkeypatch.setattr(trials, "_try", busy_once)

    async def main() -> list[str]:
        found = [await trials.fault(schema({})) for _ in range(2)]
        assert len(asked) == 1
        monkeypatch.setattr("server.grammar_trials.time.monotonic", lambda: 1e12)
        return [*found, await trials.fault(schema({})), await trials.fault(schema({}))]

    assert asyncio.run(main()) == [TOO_COSTLY, TOO_COSTLY, "", ""]
    assert len(asked) == 2


def test_a_process_that_died_is_replaced(trials: GrammarTrials) -> None:
    async def main() -> list[str]:
        found = [await trials.fault(schema({}))]
        os.kill(trials._workers._idle[0]._process.pid, signal.SIGKILL)
        trials._workers._idle[0]._process.wait()
        return [*found, *[await trials.fault(schema({"maxLength": n})) for n in range(2)]]

    assert asyncio.run(main()) == [""] * 3


def test_a_server_with_a_thousand_connections_tries_grammars_too(trials: GrammarTrials) -> None:
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        assert max(held) > 1023
        assert asyncio.run(trials.fault(schema({}))) == ""
    finally:
        for descriptor in held:
            os.close(descriptor)


def test_a_process_that_never_answers_is_not_left_behind(
    trials: GrammarTrials, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[Any]] = []
    start = subprocess.Popen

    def silent(*_: Any, **options: Any) -> subprocess.Popen[Any]:
        started.append(start(["sleep", "600"], **options))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", silent)
    monkeypatch.setattr("server.child.START_S", 0.0)
    with pytest.raises(Unavailable):
        asyncio.run(trials.fault(schema({})))
    assert [process.poll() for process in started] == [-signal.SIGKILL]


def test_a_grammar_whose_process_was_ended_by_another_is_tried_again(trials: GrammarTrials) -> None:
    async def main() -> str:
        await trials.fault(schema({}))
        (worker,) = trials._workers._idle
        asked = worker.ask

        def end_first(*question: Any) -> str:
            worker._process.kill()
            return asked(*question)

        worker.ask = end_first  # type: ignore[method-assign]
        return await trials.fault(schema({"maxLength": 1}))

    assert asyncio.run(main()) == ""


def test_what_was_found_is_remembered(trials: GrammarTrials, monkeypatch: pytest.MonkeyPatch) -> None:
    grammars = [schema({}), schema({"type": "nonsense"})]
    found = [asyncio.run(trials.fault(grammar)) for grammar in grammars]
    monkeypatch.setattr(trials, "_try", None)
    assert [asyncio.run(trials.fault(grammar)) for grammar in grammars] == found


def test_who_waits_too_long_may_come_again() -> None:
    trials = GrammarTrials(trial_s=1.5, wait_s=0.2)

    async def main() -> None:
        endless = [asyncio.create_task(trials.fault(schema({**ENDLESS, "maxLength": n}))) for n in (40, 41)]
        await asyncio.sleep(0)
        with pytest.raises(Unavailable):
            await trials.fault(schema({}))
        assert await asyncio.gather(*endless) == [TOO_COSTLY] * 2
        assert await trials.fault(schema({})) == ""

    asyncio.run(main())
    trials.close()


def test_who_waits_for_a_trial_takes_no_place_of_others(trials: GrammarTrials) -> None:
    bench = Bench(max_num_seqs=1, max_queue=1)
    bench.state.grammars = trials

    async def main() -> list[int]:
        async with client(bench) as http:
            costly = [
                asyncio.create_task(
                    http.post(URL, json=chat(response_format=form({**ENDLESS, "maxLength": n})))
                )
                for n in range(50, 56)
            ]
            await asyncio.sleep(0.2)
            plain = await http.post(URL, json=chat())
            assert not any(task.done() for task in costly)
            return [plain.status_code, *[(await task).status_code for task in costly]]

    assert asyncio.run(main()) == [200, *[400] * 6]


def form(definition: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "n", "schema": definition}}


def test_a_request_learns_of_it(trials: GrammarTrials) -> None:
    bench = Bench()
    bench.state.grammars = trials
    tool = {"type": "function", "function": {"name": "f", "parameters": ENDLESS, "strict": True}}
    error = refused(bench, chat(tools=[tool]))
    assert (error["param"], error["code"]) == ("tools", "invalid_grammar")
    assert error["message"] == f"tools: can't be enforced: {TOO_COSTLY}"
    bench.assert_idle()


def test_what_only_the_engine_finds_out_is_told_of_the_field_that_was_set() -> None:
    bench = Bench(lambda _: [RequestError("invalid grammar: fuel", "invalid_grammar", "response_format")])
    asked = chat(structured_outputs={"grammar": 'start: "x"'})
    assert refused(bench, asked)["param"] == "structured_outputs.grammar"
