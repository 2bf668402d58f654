"""Token masks for JSON schemas, regular expressions and grammars, by llguidance. Compiled on a thread beside
the step.

Knows nothing of requests: a grammar and the tokens that may end an answer go in, matchers come out. A matcher
depends on the tokens of one answer only, so it outlives a preemption, as the tokens do.
"""

import json
import math
import re
import secrets
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import llguidance
import numpy as np

from engine.messages import Grammar

MAX_COMPILED = 64
MAX_MULTIPLE = 10_000

_REFUSAL = "satisfy the grammar"
"""In llguidance's message for a token that may not follow; its other errors are limits that were reached."""

_ESCAPE = re.compile(r"\\+u([0-9a-fA-F]{4})")
_MULTIPLE_OF = re.compile(
    r'multipleOf\\*"(?:\s|\\+[nrt])*:(?:\s|\\+[nrt])*-?([0-9][0-9.]*(?:[eE][+-]?[0-9]+)?)'
)


class GrammarError(ValueError):
    """The grammar can't be compiled. The message says where, in the user's own terms."""


class Matcher:
    """An answer's place in its grammar. Not thread-safe."""

    def __init__(self, inner: llguidance.LLMatcher, stop_token_ids: tuple[int, ...]) -> None:
        self._inner = inner
        self._stop_token_ids = stop_token_ids

    def mask(self) -> np.ndarray:
        """uint32 words, bit t % 32 of word t // 32 set where token t may come next. Stop tokens: only where
        it may end."""
        words = np.frombuffer(self._inner.compute_bitmask(), dtype=np.uint32).copy()
        may_end = self._inner.is_accepting()
        for token in self._stop_token_ids:
            word, bit = divmod(token, 32)
            if word < len(words):
                flag = np.uint32(1 << bit)
                words[word] = words[word] | flag if may_end else words[word] & ~flag
        if self._inner.is_error():
            raise GrammarError(_first_line(self._inner.get_error()))
        return words

    def accept(self, token_id: int) -> bool:
        """GrammarError where the grammar turns out to be more than may be spent on a token."""
        if token_id in self._stop_token_ids:
            return self._inner.is_accepting()
        accepted = self._inner.consume_token(token_id)
        if not accepted and _REFUSAL not in (error := self._inner.get_error()):
            raise GrammarError(_first_line(error))
        return accepted

    @property
    def finished(self) -> bool:
        return self._inner.is_stopped()


class Vocabulary:
    """tokenizer_json: contents of the checkpoint's tokenizer.json. Built once, on first use: it takes about a
    second."""

    def __init__(self, tokenizer_json: str, vocab_size: int, end_token_ids: list[int]) -> None:
        definition = _for_grammars(json.loads(tokenizer_json), hide=bool(end_token_ids))
        self.inner = llguidance.LLTokenizer(
            json.dumps(definition), n_vocab=vocab_size, eos_token=end_token_ids or None
        )

    @classmethod
    def of_checkpoint(cls, directory: Path, vocab_size: int) -> "Vocabulary":
        """GrammarError where the checkpoint has no tokenizer.json."""
        path = directory / "tokenizer.json"
        if not path.is_file():
            raise GrammarError("this model has no tokenizer that grammars could be compiled against")
        return cls(path.read_text(encoding="utf-8"), vocab_size, _end_token_ids(directory))


class GrammarCompiler:
    """vocabulary: called once, on the worker thread, when the first grammar comes."""

    def __init__(self, vocabulary: Callable[[], Vocabulary]) -> None:
        self._make_vocabulary = vocabulary
        self._vocabulary: Vocabulary | None = None
        self._compiled: OrderedDict[Grammar, llguidance.LLMatcher] = OrderedDict()
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="grammar")

    def compile(self, grammar: Grammar, stop_token_ids: tuple[int, ...], count: int) -> Future[list[Matcher]]:
        """`count` matchers at their start. The future raises GrammarError."""
        return self._worker.submit(self._matchers, grammar, stop_token_ids, count)

    def close(self) -> None:
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _matchers(self, grammar: Grammar, stop_token_ids: tuple[int, ...], count: int) -> list[Matcher]:
        compiled = self._compiled.get(grammar)
        if compiled is None:
            compiled = self._compiled[grammar] = self._compile(grammar)
            if len(self._compiled) > MAX_COMPILED:
                self._compiled.popitem(last=False)
        self._compiled.move_to_end(grammar)
        return [Matcher(compiled.deep_copy(), stop_token_ids) for _ in range(count)]

    def _compile(self, grammar: Grammar) -> llguidance.LLMatcher:
        if self._vocabulary is None:
            self._vocabulary = self._make_vocabulary()
        try:
            text = _grammar_text(grammar)
        except ValueError as error:
            raise GrammarError(str(error)) from error
        check_multiples(text)
        limits = llguidance.LLParserLimits(verbose_errors=False)
        matcher = llguidance.LLMatcher(self._vocabulary.inner, text, log_level=0, limits=limits)
        if not matcher.is_error():
            matcher.compute_bitmask()  # the costliest step and what shows most faults: here, beside the step
        if matcher.is_error():
            raise GrammarError(_first_line(matcher.get_error()))
        return matcher


def check_multiples(text: str) -> None:
    """GrammarError where `multipleOf` is so large that the automaton which enforces it, with a state for
    every remainder, would take minutes and gigabytes. In `allOf` their least common multiple counts."""
    text = _ESCAPE.sub(lambda escape: chr(int(escape[1], 16)), text)
    multiple = 1
    for number in _MULTIPLE_OF.findall(text):
        digits = number.lower().partition("e")[0].replace(".", "").strip("0")
        multiple = math.lcm(multiple, int(digits[:9] or 1))
        if len(digits) > 9 or multiple > MAX_MULTIPLE:
            raise GrammarError(f"multipleOf can't be enforced beyond {MAX_MULTIPLE} (all of them together)")


def _grammar_text(grammar: Grammar) -> str:
    make = llguidance.LLMatcher
    match grammar.kind:
        case "json_schema":
            return make.grammar_from_json_schema(grammar.definition)
        case "json_object":
            return make.grammar_from_json_schema('{"type": "object"}')
        case "regex":
            return make.grammar_from_regex(grammar.definition)
        case "lark":
            return make.grammar_from_lark(grammar.definition)
        case "structural":
            json.loads(grammar.definition)
            return grammar.definition
        case kind:
            raise ValueError(f"unknown kind of grammar: {kind}")


def _first_line(message: str) -> str:
    line = message.strip().partition("\n")[0][:500]
    return line if " " in line else "it allows no text at all"  # one word is a name inside the library


def _for_grammars(tokenizer: dict[str, Any], hide: bool) -> dict[str, Any]:
    """Padding and truncation are for batches; they would distort the vocabulary's view of single tokens.

    hide: give control tokens names that no text can hold. llguidance takes every added token written
    <like this> for a control token that text never contains, but would still force it where a grammar's text
    spells its name, and then refuse it. Grammars that want such a token name it by id: `<[123]>`.
    """
    tokenizer["padding"] = tokenizer["truncation"] = None
    if hide:
        nonce = secrets.token_hex(8)
        named = {
            token["content"]: f"<|{nonce} {token['id']}|>"
            for token in tokenizer.get("added_tokens") or ()
            if _is_control(token)
        }
        for token in tokenizer.get("added_tokens") or ():
            token["content"] = named.get(token["content"], token["content"])
        model = tokenizer["model"]
        if isinstance(model.get("vocab"), dict):
            model["vocab"] = {named.get(text, text): token_id for text, token_id in model["vocab"].items()}
        elif isinstance(model.get("vocab"), list):
            model["vocab"] = [[named.get(text, text), score] for text, score in model["vocab"]]
        if "unk_token" in model:
            model["unk_token"] = named.get(model["unk_token"], model["unk_token"])
        tokenizer["post_processor"] = None
    return tokenizer


def _is_control(token: dict[str, Any]) -> bool:
    text = token["content"]
    is_byte = text.startswith("<0x") and len(text) == 6
    return not is_byte and (token["special"] or (text.startswith("<") and text.endswith(">")))


def _end_token_ids(directory: Path) -> list[int]:
    for name in ("generation_config.json", "config.json"):
        path = directory / name
        if path.is_file():
            found = json.loads(path.read_text(encoding="utf-8")).get("eos_token_id")
            if found is not None:
                return found if isinstance(found, list) else [found]
    return []
