"""The process in which grammars are tried out: some take minutes, and only a process can be stopped.

A line of JSON in, [kind, definition]; a line of JSON out: what is wrong with the grammar, or "".
"""

import json
import resource
import signal
import sys

from llguidance import LLMatcher

MAX_BYTES = 4 << 30
"""Of address space."""
ALARM_S = 6
"""Ends the process when nobody is left to do it."""
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


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
    _say("")
    for line in sys.stdin.buffer:
        signal.alarm(ALARM_S)
        _say(fault(*json.loads(line))[:MAX_FAULT_CHARS])
        signal.alarm(0)


def _say(answer: str) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
