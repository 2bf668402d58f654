"""What was computed once is not computed again: prepared, encoded, prefilled."""

import pytest

from tests.proof.families import FAMILIES, TEXT, media
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
    assert 1 <= after.num_computed_prompt_tokens - before.num_computed_prompt_tokens <= BLOCK
    assert answer.num_cached + after.num_computed_prompt_tokens - before.num_computed_prompt_tokens == len(
        prompt(name, pieces).ids
    )


@pytest.mark.parametrize("chunk", [32, 2048])
@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_eight_identical_requests_at_once(name: str, kind: str, chunk: int) -> None:
    """In one step, or while the first is at its chunks: one encoder run, each prompt block computed once."""
    engine = rig(name, chunk=chunk, max_num_seqs=8)
    pieces = words(1, 20, TEXT) + media(name, kind, 1, 2.0) + words(2, 25, TEXT)
    asked = [prompt(name, pieces) for _ in range(8)]
    for answer in engine.run(asked):
        check(name, pieces, answer)
    assert (engine.num_prepared, engine.stats.num_encoder_runs) == (1, 1)
    num_tokens = len(asked[0].ids)
    tail = num_tokens - (num_tokens - 1) // BLOCK * BLOCK
    assert engine.stats.num_computed_prompt_tokens == num_tokens + 7 * tail


@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_an_aborted_promiser_hands_over(name: str, kind: str) -> None:
    engine = rig(name, chunk=BLOCK, max_num_seqs=8)
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
    size_bytes = max(span[1] - span[0] for span in prompt(name, first).request.spans) * 64 * 4
    engine = rig(name, encoder_cache_bytes=size_bytes)
    (said,) = engine.run([prompt(name, first)])
    engine.run([prompt(name, words(4, 3, TEXT) + media(name, kind, 2, 2.0))])
    assert (engine.num_prepared, engine.stats.num_encoder_runs) == (2, 2)
    later = [*first, *said.tokens, *words(3, 9, TEXT)]
    (answer,) = engine.run([prompt(name, later)])
    check(name, later, answer)
    assert (engine.num_prepared, engine.stats.num_encoder_runs) == (2, 2)
