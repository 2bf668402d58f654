"""Grammars against a vocabulary of 256 bytes and one end token."""

import json
import random
import re
import time

import msgspec
import numpy as np
import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from engine.grammar import MAX_COMPILED, GrammarCompiler, GrammarError, Vocabulary
from engine.messages import Grammar
from tests.engine.house import House, generate

END = 256
VOCAB_SIZE = 260


def _definition() -> str:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({char: index for index, char in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<end>"])
    return tokenizer.to_str()


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return Vocabulary(_definition(), VOCAB_SIZE, [END])


@pytest.fixture
def compiler(vocabulary):
    compiler = GrammarCompiler(lambda: vocabulary)
    yield compiler
    compiler.close()


def allowed(matcher) -> set[int]:
    words = matcher.mask()
    assert words.dtype == np.uint32
    bits = np.unpackbits(words.view(np.uint8), bitorder="little")
    return set(np.flatnonzero(bits).tolist())


def babble(matcher, vocabulary: Vocabulary, seed: int, limit: int = 400) -> str | None:
    """A random answer that the masks allow, ending as soon as it may; None if it grows too long."""
    rng, tokens = random.Random(seed), []
    while len(tokens) < limit:
        choices = allowed(matcher)
        assert choices
        assert max(choices) <= END, "padding of the vocabulary is never allowed"
        if END in choices:
            assert matcher.accept(END)
            return vocabulary.inner.decode_str(tokens)
        tokens.append(rng.choice(sorted(choices)))
        assert matcher.accept(tokens[-1])
        if matcher.finished:
            return vocabulary.inner.decode_str(tokens)
    return None


SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"enum": ["x", "y"]}},
    "required": ["a", "b"],
    "additionalProperties": False,
}

GRAMMARS = [
    (Grammar("regex", "(ab|c){2,5}"), lambda text: re.fullmatch("(ab|c){2,5}", text)),
    (Grammar("lark", 'start: "yes" | "no"'), lambda text: text in ("yes", "no")),
    (Grammar("json_schema", json.dumps(SCHEMA)), lambda text: json.loads(text)["b"] in ("x", "y")),
    (Grammar("json_object"), lambda text: isinstance(json.loads(text), dict)),
    (
        Grammar("structural", json.dumps({"grammars": [{"lark_grammar": 'start: "a" "b"'}]})),
        lambda text: text == "ab",
    ),
]


@pytest.mark.parametrize(("grammar", "check"), GRAMMARS)
def test_whatever_the_masks_allow_matches(compiler, vocabulary, grammar, check) -> None:
    answers = [
        babble(compiler.compile(grammar, (END,), 1).result()[0], vocabulary, seed) for seed in range(6)
    ]
    complete = [answer for answer in answers if answer is not None]
    assert complete
    assert all(check(answer) for answer in complete)


INVALID = [
    Grammar("regex", "(a"),
    Grammar("lark", "start: undefined_rule"),
    Grammar("json_schema", "{"),
    Grammar("json_schema", '{"type": "nonsense"}'),
    Grammar("structural", "{"),
    Grammar("poetry", "x"),
]


@pytest.mark.parametrize("grammar", INVALID)
def test_invalid_grammars(compiler, grammar) -> None:
    with pytest.raises(GrammarError):
        compiler.compile(grammar, (END,), 1).result()
    assert compiler.compile(Grammar("regex", "a"), (END,), 1).result(), "the next one compiles"


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize(
    "grammar",
    [
        Grammar("lark", 'start: "<call>" "x"'),
        Grammar("regex", "(<call>)x"),
        Grammar("json_schema", '{"enum": ["<call>", "<end>"]}'),
        Grammar("lark", 'start: "<" /.*/ "x"'),
    ],
    ids=str,
)
def test_text_that_spells_a_control_token_is_text(grammar: Grammar, special: bool) -> None:
    tokenizer = Tokenizer.from_str(_definition())
    tokenizer.add_tokens([AddedToken("<call>", special=special, normalized=False)])
    call = tokenizer.token_to_id("<call>")
    vocabulary = Vocabulary(tokenizer.to_str(), VOCAB_SIZE, [END])
    (matcher,) = GrammarCompiler(lambda: vocabulary).compile(grammar, (END,), 1).result()
    rng = random.Random(0)
    for _ in range(40):
        choices = allowed(matcher)
        assert call not in choices
        token = rng.choice(sorted(choices))
        assert matcher.accept(token)
        if token == END or matcher.finished:
            break


def test_a_control_token_can_be_named_by_its_id() -> None:
    tokenizer = Tokenizer.from_str(_definition())
    tokenizer.add_tokens([AddedToken("<call>", special=False, normalized=False)])
    call = tokenizer.token_to_id("<call>")
    vocabulary = Vocabulary(tokenizer.to_str(), VOCAB_SIZE, [END])
    grammar = Grammar("lark", f'start: <[{call}]> "x"')
    (matcher,) = GrammarCompiler(lambda: vocabulary).compile(grammar, (END,), 1).result()
    assert allowed(matcher) == {call}
    assert matcher.accept(call)


def test_matchers_are_independent_and_refuse_what_is_not_allowed(compiler) -> None:
    first, second = compiler.compile(Grammar("lark", 'start: "ab"'), (END,), 2).result()
    (start,) = allowed(first)
    assert first.accept(start)
    assert allowed(second) == {start}
    assert not second.accept((start + 1) % 256)


def test_stop_tokens_of_the_request_only_where_the_answer_may_end(compiler) -> None:
    matcher = compiler.compile(Grammar("regex", "a+"), (END, 7), 1).result()[0]
    (letter,) = allowed(matcher)
    assert matcher.accept(letter)
    assert allowed(matcher) == {letter, END, 7}
    assert not matcher.finished


def test_compiled_grammars_are_bounded(compiler) -> None:
    for index in range(MAX_COMPILED + 5):
        compiler.compile(Grammar("regex", f"a{{{index + 1}}}"), (END,), 1).result()
    assert len(compiler._compiled) == MAX_COMPILED


def test_a_checkpoint_without_tokenizer(tmp_path) -> None:
    compiler = GrammarCompiler(lambda: Vocabulary.of_checkpoint(tmp_path, VOCAB_SIZE))
    with pytest.raises(GrammarError, match="no tokenizer"):
        compiler.compile(Grammar("json_object"), (), 1).result()


class Words:
    """A grammar whose answers are a fixed list of tokens."""

    def __init__(self, tokens) -> None:
        self.tokens = list(tokens)

    def mask(self):
        raise NotImplementedError

    def accept(self, token) -> bool:
        return bool(self.tokens) and self.tokens.pop(0) == token

    @property
    def finished(self) -> bool:
        return not self.tokens


def settle(house: House) -> None:
    while house.engine.is_compiling:
        house.step()
        time.sleep(0.001)
    house.run()


def test_in_the_loop_an_invalid_grammar_fails_its_request_only(compiler) -> None:
    house = House(grammars=compiler)
    request = generate("bad", [2, 3])
    house.requests["bad"] = request
    house.engine.handle(msgspec.structs.replace(request, grammar=INVALID[0]))
    house.add(generate("fine", [2, 3]))
    settle(house)
    house.check_all_done()
    assert (house.failures["bad"].code, house.failures["bad"].param) == ("invalid_grammar", "response_format")


def test_in_the_loop_a_finished_grammar_stops_and_a_broken_one_fails() -> None:
    from tests.engine.arithmetic import lone_run

    house = House()
    answer = lone_run(generate("x", [2, 3]), 0, 8)
    for request_id, words in (("ends", answer[:3]), ("breaks", [answer[0], -1])):
        request = generate(request_id, [2, 3], max_tokens=8)
        house.requests[request_id] = request
        house.engine.scheduler.add(house.engine._admission.admit(request, 1), [Words(words)])
        house.run()
    house.check_all_done()
    assert house.tokens["ends", 0] == answer[:3]
    assert house.finished["ends", 0] == "stop"
    assert house.failures.keys() == {"breaks"}


def test_in_the_loop_an_abort_while_compiling(compiler) -> None:
    house = House(grammars=compiler)
    request = generate("r", [2, 3])
    house.engine.handle(msgspec.structs.replace(request, grammar=Grammar("regex", "a")))
    house.abort("r")
    settle(house)
    assert not house.tokens
    assert house.engine.stats().num_aborted == 1


def failure_of(compiler: GrammarCompiler, grammar: Grammar) -> str:
    with pytest.raises(GrammarError) as caught:
        compiler.compile(grammar, (), 1).result()
    return str(caught.value)


@pytest.mark.parametrize(
    "schema",
    [
        {"multipleOf": 99_999_989},
        {"type": "number", "multipleOf": 0.0099991},
        {"allOf": [{"multipleOf": 9973}, {"multipleOf": 101}]},
    ],
)
def test_multiples_that_would_take_minutes_are_refused(compiler, schema: dict) -> None:
    definition = json.dumps({"type": "integer"} | schema)
    assert "multipleOf" in failure_of(compiler, Grammar("json_schema", definition))
    assert "multipleOf" in failure_of(compiler, Grammar("lark", f"start: %json {definition}"))
    hidden = definition.replace("multipleOf", "multiple\\u004ff")
    assert "multipleOf" in failure_of(compiler, Grammar("lark", f"start: %json {hidden}"))


@pytest.mark.parametrize("multiple", [0.01, 5, 1000, 10_000_000, 0.25, 60])
def test_multiples_that_are_used_are_not(compiler, multiple: float) -> None:
    schema = {"type": "number", "multipleOf": multiple}
    compiler.compile(Grammar("json_schema", json.dumps(schema)), (), 1).result()


def test_a_grammar_that_can_not_begin_is_refused(compiler) -> None:
    loop = {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}
    assert failure_of(compiler, Grammar("json_schema", json.dumps(loop)))


def test_a_grammar_that_grows_too_complex_says_so(compiler) -> None:
    properties = {f"p{number}": {"type": "string"} for number in range(4000)}
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    (matcher,) = compiler.compile(Grammar("json_schema", json.dumps(schema)), (), 1).result()
    with pytest.raises(GrammarError, match="items"):
        matcher.accept(min(allowed(matcher)))


def test_a_fault_is_said_in_words(compiler) -> None:
    with pytest.raises(GrammarError, match="allows no text at all"):
        compiler.compile(Grammar("json_schema", '{"$ref": "#"}'), (), 1).result()
