"""The process in which grammars are tried out: some take minutes, and only a process can be stopped.

Asked with [kind, definition], it says what is wrong with the grammar, or "".
"""

from typing import Any

from llguidance import LLMatcher

from server import child_loop

LIMIT_S = 6
"""Of processor time, should nobody be left to end it."""
MAX_FAULT_CHARS = 4000


def fault(kind: str, definition: str) -> str:
    """What keeps the grammar from being enforced, in llguidance's words; "" if nothing does."""
    try:
        if kind == "json_schema":
            compiled = LLMatcher.grammar_from_json_schema(definition)
        elif kind == "regex":
            compiled = LLMatcher.grammar_from_regex(definition)
        else:
            compiled = LLMatcher.grammar_from_lark(definition)
        return LLMatcher.validate_grammar(compiled)
    except ValueError as error:
        return str(error)


def main(parent_pid: int, max_bytes: int) -> None:
    child_loop.run(_answer, parent_pid, max_bytes, LIMIT_S)


def _answer(question: Any, _: bytes) -> child_loop.Answer:
    return child_loop.Answer(fault(*question)[:MAX_FAULT_CHARS])
