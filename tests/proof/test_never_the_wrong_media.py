"""Equal tokens, different media: no hit reaches into the span, and the answer is that of what is there."""

import random
from functools import partial
from itertools import pairwise

import pytest

from tests.proof.families import FAMILIES, TEXT, media, model
from tests.proof.prompts import words
from tests.proof.reference import Piece
from tests.proof.rig import BLOCK
from tests.proof.test_equal_to_transformers import check, prompt, rig

KINDS = [(name, kind) for name, family in FAMILIES.items() for kind in family.kinds]
every_kind = partial(pytest.mark.parametrize, ("name", "kind"), KINDS)()


@every_kind
def test_other_media_behind_equal_tokens(name: str, kind: str) -> None:
    engine = rig(name)
    head, tail = words(60, 23, TEXT), words(61, 30, TEXT)
    one, other = (head + media(name, kind, seed, 2.0) + tail for seed in (1, 2))
    first, second = prompt(name, one), prompt(name, other)
    assert first.ids == second.ids
    engine.run([first])
    (answer,) = engine.run([second])
    assert answer.num_cached <= second.request.spans[0][0]
    check(name, other, answer)
    (again,) = engine.run([prompt(name, one)])
    assert again.num_cached >= first.request.spans[0][1]
    check(name, one, again)


@every_kind
def test_two_media_swapped(name: str, kind: str) -> None:
    engine = rig(name)
    head, middle = words(62, 7, TEXT), words(63, 3, TEXT)
    one, two = media(name, kind, 1), media(name, kind, 2)
    for pieces in (head + one + middle + two, head + two + middle + one, head + one + middle + one):
        (answer,) = engine.run([prompt(name, pieces)])
        check(name, pieces, answer)
    assert engine.stats.num_encoder_runs == 2


@every_kind
@pytest.mark.parametrize("shift", [1, 5, BLOCK, 17])
def test_the_same_media_elsewhere(name: str, kind: str, shift: int) -> None:
    """Same media, same tokens around it, another place in the sequence and so other offsets in its blocks."""
    engine = rig(name)
    pieces = words(64, 10, TEXT) + media(name, kind, 1, 2.0) + words(65, 20, TEXT)
    engine.run([prompt(name, pieces)])
    moved = words(66, shift, TEXT) + pieces
    (answer,) = engine.run([prompt(name, moved)])
    assert answer.num_cached == 0
    check(name, moved, answer)
    assert engine.stats.num_encoder_runs == 1


@every_kind
def test_two_media_in_one_block(name: str, kind: str) -> None:
    """The smallest that the family takes, side by side, so that one block holds parts of several."""
    engine = rig(name)
    small = [media(name, kind, seed, 0.3) for seed in (1, 2, 3)]
    for order in ((0, 1, 2), (1, 0, 2), (0, 2, 1), (0, 1, 2)):
        pieces: list[Piece] = words(67, 4, TEXT)
        for index in order:
            pieces += small[index]
        pieces += words(68, 9, TEXT)
        asked = prompt(name, pieces)
        blocks = [range(start // BLOCK, (end - 1) // BLOCK + 1) for start, end, *_ in asked.request.spans]
        assert any(set(a) & set(b) for a, b in pairwise(blocks))
        (answer,) = engine.run([asked])
        check(name, pieces, answer)


@every_kind
def test_other_namespaces_share_nothing(name: str, kind: str) -> None:
    engine = rig(name)
    pieces = words(69, 20, TEXT) + media(name, kind, 1, 2.0) + words(70, 20, TEXT)
    engine.run([prompt(name, pieces, namespace=b"one")])
    (answer,) = engine.run([prompt(name, pieces, namespace=b"two")])
    assert answer.num_cached == 0
    assert engine.stats.num_encoder_runs == 2


def test_a_thousand_prompts_with_a_hash_of_eight_bits() -> None:
    """Collisions by the hundred: each costs a hit and never an answer."""
    name = "qwen2_5_omni"
    randomly = random.Random(5)
    pool = [media(name, kind, seed, 0.5) for kind in ("image", "audio") for seed in range(6)]
    heads = [words(80 + seed, 17, TEXT) for seed in range(4)]
    asked: list[list[Piece]] = []
    for index in range(1000):
        pieces = list(randomly.choice(heads))
        for _ in range(randomly.randint(1, 2)):
            pieces += randomly.choice(pool)
        pieces += words(100 + index % 50, 6, TEXT)
        asked.append(pieces)
    honest, collided = rig(name), rig(name, hash_bits=8)
    for start in range(0, 1000, 10):
        some = asked[start : start + 10]
        expected = honest.run([prompt(name, pieces, max_tokens=2) for pieces in some])
        answers = collided.run([prompt(name, pieces, max_tokens=2) for pieces in some])
        for one, other in zip(expected, answers, strict=True):
            assert one.tokens == other.tokens
            assert one.logprobs[0].chosen == pytest.approx(other.logprobs[0].chosen, abs=1e-4)
    assert model(name).processing.kinds == {"image", "audio"}
    assert collided.stats.num_cached_prompt_tokens > 0
