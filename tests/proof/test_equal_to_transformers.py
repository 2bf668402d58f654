"""One proof for every family: however an answer is reached, it is the one that `transformers` gives.

cold = warm = half-warm = chunked = batched = preempted = appended = one of n, for text, pictures,
sounds and both. Log-probabilities within 1e-4 in fp32, greedy tokens the same.
"""

from functools import cache

import pytest
import torch

from tests.proof.compatibility import WAYS
from tests.proof.families import FAMILIES, TEXT, forbidden, media, mixes, model, reference, steps_of
from tests.proof.prompts import Prompt, build, words
from tests.proof.reference import Piece
from tests.proof.rig import BLOCK, Answer, Rig

TOLERANCE = 1e-4
MULTIMODAL = [name for name, family in FAMILIES.items() if family.kinds]
CASES = [(name, mix) for name in FAMILIES for mix in mixes(name)]


def on_backends(way: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("backend", WAYS[way])


def rig(name: str, backend: str = "sdpa", **settings: int) -> Rig:
    return Rig(model(name, backend), backend=backend, **settings)


def prompt(name: str, pieces: list[Piece], **sampling: object) -> Prompt:
    return build(pieces, model(name).processing, logit_bias=forbidden(name), **sampling)


@cache
def _expected(name: str, pieces: tuple[int, ...], continuation: tuple[int, ...]) -> torch.Tensor:
    return reference(name).log_probs(_PIECES[pieces], continuation)


_PIECES: dict[tuple[int, ...], list[Piece]] = {}


def check(name: str, pieces: list[Piece], answer: Answer) -> None:
    """The answer's tokens are the greedy ones, and every log-probability it reports is the reference's."""
    key = tuple(piece if isinstance(piece, int) else -id(piece) for piece in pieces)
    _PIECES[key] = pieces
    expected = _expected(name, key, tuple(answer.tokens[:-1]))
    assert len(answer.tokens) == len(answer.logprobs) == len(expected)
    for token, reported, row in zip(answer.tokens, answer.logprobs, expected, strict=True):
        assert token == int(row.index_fill(0, torch.tensor([*forbidden(name)]), -torch.inf).argmax())
        assert abs(reported.chosen - float(row[token])) <= TOLERANCE
        ids = torch.tensor([index for index, _ in reported.top])
        values = torch.tensor([value for _, value in reported.top])
        assert len(ids) == 20
        torch.testing.assert_close(values, row[ids], atol=TOLERANCE, rtol=0)


@on_backends("cold, then warm")
@pytest.mark.parametrize(("name", "mix"), CASES)
def test_cold_and_warm(name: str, mix: str, backend: str) -> None:
    pieces = mixes(name)[mix]
    engine = rig(name, backend)
    (cold,) = engine.run([prompt(name, pieces)])
    check(name, pieces, cold)
    assert cold.num_cached == 0
    before = engine.stats
    (warm,) = engine.run([prompt(name, pieces)])
    check(name, pieces, warm)
    after = engine.stats
    assert warm.tokens == cold.tokens
    assert after.num_encoder_runs == before.num_encoder_runs
    assert after.num_computed_prompt_tokens - before.num_computed_prompt_tokens == 1
    assert after.num_media_requested == before.num_media_requested


@on_backends("in chunks of 1, 7 and 16 tokens")
@pytest.mark.parametrize("chunk", [1, 7, 16])
@pytest.mark.parametrize(("name", "mix"), CASES)
def test_in_chunks(name: str, mix: str, chunk: int, backend: str) -> None:
    """As long as a span that can't be cut, and 6 and 15 tokens longer, where the prompt has one."""
    pieces = mixes(name)[mix]
    size = chunk if mix == "text" else steps_of(name, 1) - 1 + chunk
    (answer,) = rig(name, backend, chunk=size, max_num_seqs=1).run([prompt(name, pieces)])
    check(name, pieces, answer)


@on_backends("eight requests in one batch")
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("chunk", [24, 2048])
def test_eight_at_once(name: str, chunk: int, backend: str) -> None:
    every = [*mixes(name).values()]
    asked = [every[index % len(every)] + words(50 + index, 1 + index, TEXT) for index in range(8)]
    engine = rig(name, backend, chunk=steps_of(name, chunk, 8), max_num_seqs=8)
    answers = engine.run([prompt(name, pieces) for pieces in asked])
    for pieces, answer in zip(asked, answers, strict=True):
        check(name, pieces, answer)


@on_backends("preempted and resumed")
@pytest.mark.parametrize("name", FAMILIES)
def test_preempted_and_resumed(name: str, backend: str) -> None:
    """A pool in which two fit only as long as they are short."""
    asked = [[*pieces, *words(70 + index, 3, TEXT)] for index, pieces in enumerate(mixes(name).values())][:2]
    if len(asked) < 2:
        asked.append(words(72, 40, TEXT))
    prompts = [prompt(name, pieces, max_tokens=40) for pieces in asked]
    needed = [-(-(len(p.ids) + 40) // BLOCK) for p in prompts]
    engine = rig(name, backend, num_blocks=max(sum(needed) - 2, *needed))
    answers = engine.run(prompts)
    assert engine.stats.num_preemptions > 0
    for pieces, answer in zip(asked, answers, strict=True):
        check(name, pieces, answer)


@on_backends("found up to before, inside and after a media item")
@pytest.mark.parametrize(
    ("name", "kind", "where"),
    [
        (name, kind, where)
        for name in MULTIMODAL
        for kind in FAMILIES[name].kinds
        for where in ("before", "inside", "after")
        if where != "inside" or not FAMILIES[name].indivisible
    ],
)
def test_half_warm(name: str, kind: str, where: str, backend: str) -> None:
    """A hit that ends before a span, inside it, and after it."""
    span = media(name, kind, 1, 2.0)
    start, end = prompt(name, span).request.spans[0][:2]
    head = words(20, 37, TEXT)
    start, end = start + len(head), end + len(head)
    pieces = head + span + words(22, 40, TEXT) + words(23, 9, TEXT)
    asked = prompt(name, pieces, max_tokens=6)
    engine = rig(name, backend, chunk=steps_of(name, (end - start) // 2), max_num_seqs=1)
    other = head + media(name, kind, 2 if where == "before" else 1, 2.0) + words(22, 40, TEXT)
    first = prompt(name, other, max_tokens=1)
    if where == "inside":
        engine.ask(first)
        while engine.stats.num_computed_prompt_tokens <= start:
            engine.step()
        engine.abort(first)
        inside = engine.stats.num_computed_prompt_tokens
        assert inside < end
    else:
        engine.run([first])
        inside = -1
    (answer,) = engine.run([asked])
    assert answer.num_cached == {"before": start, "inside": inside, "after": len(first.ids)}[where]
    check(name, pieces, answer)


@on_backends("found up to before, inside and after a media item")
@pytest.mark.parametrize(
    ("name", "kind"), [(n, k) for n in MULTIMODAL for k in FAMILIES[n].kinds if FAMILIES[n].indivisible]
)
def test_a_span_that_is_held_in_part_is_not_found(name: str, kind: str, backend: str) -> None:
    """The blocks from its middle on were taken by others: the hit ends before it."""
    head, tail = words(20, 37, TEXT), words(22, 40, TEXT)
    pieces = head + media(name, kind, 1) + tail
    asked = prompt(name, pieces)
    start, end = asked.request.spans[0][:2]
    held = (end - 1) // BLOCK
    assert start < held * BLOCK < end
    num_blocks = -(-(len(asked.ids) + 6) // BLOCK)
    engine = rig(name, backend, num_blocks=num_blocks)
    engine.run([asked])
    engine.run([prompt(name, words(24, (num_blocks - held) * BLOCK - 1, TEXT), max_tokens=1)])
    (answer,) = engine.run([prompt(name, pieces)])
    assert answer.num_cached == start
    check(name, pieces, answer)


@on_backends("with media appended in a later turn")
@pytest.mark.parametrize(("name", "kind"), [(n, k) for n in MULTIMODAL for k in FAMILIES[n].kinds])
def test_media_appended_in_a_later_turn(name: str, kind: str, backend: str) -> None:
    engine = rig(name, backend)
    first = words(30, 33, TEXT) + media(name, kind, 1) + words(31, 5, TEXT)
    (said,) = engine.run([prompt(name, first, max_tokens=17)])
    check(name, first, said)
    second = [*first, *said.tokens, *words(32, 3, TEXT), *media(name, kind, 2), *words(33, 5, TEXT)]
    (answer,) = engine.run([prompt(name, second)])
    check(name, second, answer)
    assert answer.num_cached == len(prompt(name, first).ids) + 16
    assert engine.stats.num_encoder_runs == 2


@on_backends("as one of four choices")
@pytest.mark.parametrize("name", FAMILIES)
def test_four_choices_share_the_prompt(name: str, backend: str) -> None:
    *_, pieces = mixes(name).values()
    engine = rig(name, backend)
    asked = prompt(name, pieces, num_choices=4)
    engine.run([asked])
    for choice in range(4):
        check(name, pieces, engine.answers[asked.request.request_id, choice])
    end = BLOCK + FAMILIES[name].indivisible  # of the prompt, that choices of the same step don't share
    assert engine.stats.num_computed_prompt_tokens <= len(asked.ids) + 3 * end
    assert engine.stats.num_encoder_runs == len(asked.media)


@pytest.mark.parametrize(("name", "kind"), [(n, k) for n in MULTIMODAL for k in FAMILIES[n].kinds])
def test_the_proof_is_sensitive(name: str, kind: str) -> None:
    """Other media at the same placeholders move log-probabilities far beyond the tolerance."""
    one = words(40, 9, TEXT) + media(name, kind, 1) + words(41, 9, TEXT)
    other = words(40, 9, TEXT) + media(name, kind, 2) + words(41, 9, TEXT)
    difference = (reference(name).log_probs(one) - reference(name).log_probs(other)).abs().max()
    assert difference >= 0.1
