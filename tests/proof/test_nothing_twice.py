"""What was computed once is not computed again: prepared, encoded, prefilled."""

import pytest

from tests.proof.families import FAMILIES, TEXT, media, model, steps_of
from tests.proof.prompts import words
from tests.proof.rig import BLOCK
from tests.proof.test_equal_to_transformers import check, prompt, rig

KINDS = [(name, kind) for name, family in FAMILIES.items() for kind in family.kinds]


@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_the_second_identical_request_does_almost_nothing(name: str, kind: str) -> None:
    engine = rig(name)
    pieces = words(1, 20, TEXT) + media(name, kind, 1, 2.0) + words(2, 25, TEXT)
    engine.run([prompt(name, pieces)])
    before, prepared = engine.stats, engine.num_prepared
    assert (prepared, before.num_encoder_runs) == (1, 1)
    (answer,) = engine.run([prompt(name, pieces)])
    after = engine.stats
    assert (engine.num_prepared, after.num_encoder_runs) == (1, 1)
    assert after.num_computed_prompt_tokens - before.num_computed_prompt_tokens == 1
    assert answer.num_cached == len(prompt(name, pieces).ids) - 1


@pytest.mark.parametrize("chunk", [32, 2048])
@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_eight_identical_requests_at_once(name: str, kind: str, chunk: int) -> None:
    """In one step, or while the first is at its chunks: one encoder run, each prompt block computed once."""
    engine = rig(name, chunk=steps_of(name, chunk, 8), max_num_seqs=8)
    pieces = words(1, 20, TEXT) + media(name, kind, 1, 2.0) + words(2, 25, TEXT)
    asked = [prompt(name, pieces) for _ in range(8)]
    for answer in engine.run(asked):
        check(name, pieces, answer)
    assert (engine.num_prepared, engine.stats.num_encoder_runs) == (1, 1)
    num_tokens = len(asked[0].ids)
    tail = num_tokens - (num_tokens - 1) // BLOCK * BLOCK  # of those that start in the same step
    assert num_tokens + 7 <= engine.stats.num_computed_prompt_tokens <= num_tokens + 7 * tail


@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_a_later_turn_computes_only_what_is_new(name: str, kind: str) -> None:
    """However the turns lie to the blocks. The last token of an answer was not computed when it was said."""
    engine = rig(name)
    pieces = words(1, 7, TEXT) + media(name, kind, 1, 2.0)
    for turn in range(3):
        before = engine.stats.num_computed_prompt_tokens
        question = words(10 + turn, 5 + 3 * turn, TEXT)
        pieces = [*pieces, *question]
        (said,) = engine.run([prompt(name, pieces, max_tokens=6)])
        check(name, pieces, said)
        if turn:
            new = engine.stats.num_computed_prompt_tokens - before
            assert new == len(question) + 1
        pieces = [*pieces, *said.tokens]


@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_an_aborted_promiser_hands_over(name: str, kind: str) -> None:
    engine = rig(name, chunk=steps_of(name, BLOCK, 8), max_num_seqs=8)
    pieces = words(1, 20, TEXT) + media(name, kind, 1, 2.0) + words(2, 60, TEXT)
    first, *others = (prompt(name, pieces) for _ in range(3))
    for asked in (first, *others):
        engine.ask(asked)
    for _ in range(4):
        engine.step()
    assert engine.stats.num_running == 1
    engine.abort(first)
    engine.finish()
    for asked in others:
        check(name, pieces, engine.answers[asked.request.request_id, 0])
    num_tokens = len(first.ids)
    assert engine.stats.num_encoder_runs == 1
    assert engine.stats.num_computed_prompt_tokens <= num_tokens + 2 * BLOCK + 3 * BLOCK


@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_a_covered_span_needs_no_media(name: str, kind: str) -> None:
    """A later turn over held blocks: its media are not asked for, even though their encoding is gone."""
    first = words(1, 20, TEXT) + media(name, kind, 1, 2.0) + words(2, 25, TEXT)
    num_tokens = max(span[1] - span[0] for span in prompt(name, first).request.spans)
    size_bytes = num_tokens * model(name).encoding_width * 4
    engine = rig(name, encoder_cache_bytes=size_bytes)
    (said,) = engine.run([prompt(name, first)])
    engine.run([prompt(name, words(4, 3, TEXT) + media(name, kind, 2, 2.0))])
    assert (engine.num_prepared, engine.stats.num_encoder_runs) == (2, 2)
    later = [*first, *said.tokens, *words(3, 9, TEXT)]
    (answer,) = engine.run([prompt(name, later)])
    check(name, later, answer)
    assert (engine.num_prepared, engine.stats.num_encoder_runs) == (2, 2)
