"""Tokens follow the distribution that the parameters describe, and nothing else."""

import math

import numpy as np
import pytest
import torch

import engine.draw
from engine.draw import uniform
from engine.logprobs import FLOOR
from engine.messages import SamplingParams
from engine.sampler import sample
from engine.step import RowFault, SampledToken
from tests.engine.sequences import make_sequence

VOCAB = 40


def params(**changes) -> SamplingParams:
    return SamplingParams(max_tokens=100, **changes)


def tokens_of(logits: torch.Tensor, sampling: list[SamplingParams], **sequence) -> list[int]:
    sequences = [make_sequence([1, 2], p, **sequence) for p in sampling]
    results = sample(logits, sequences)
    assert all(isinstance(result, SampledToken) for result in results)
    return [result.token_id for result in results if isinstance(result, SampledToken)]


def expected_distribution(logits: torch.Tensor, p: SamplingParams) -> np.ndarray:
    """By full sort, in float64: what is kept, then renormalised. Logits without ties."""
    scaled = logits.double().numpy() / p.temperature
    weights = np.exp(scaled - scaled.max())
    order = np.argsort(-weights)
    if p.top_k:
        weights[order[p.top_k :]] = 0
    weights /= weights.sum()
    before = weights[order].cumsum() - weights[order]
    weights[order[before >= p.top_p]] = 0
    weights[weights < p.min_p * weights.max()] = 0
    return weights / weights.sum()


def chi_square(counts: np.ndarray, expected: np.ndarray) -> float:
    """Of the counts, over the tokens that are expected, in standard deviations above its mean."""
    kept = expected > 0
    expected_counts = expected[kept] * counts.sum()
    statistic = ((counts[kept] - expected_counts) ** 2 / expected_counts).sum()
    freedom = max(kept.sum() - 1, 1)
    return float((statistic - freedom) / np.sqrt(2 * freedom))


LIMITS = [
    {},
    {"temperature": 0.6},
    {"top_k": 5},
    {"top_p": 0.7},
    {"min_p": 0.1},
    {"top_k": 20, "top_p": 0.9, "temperature": 1.5},
    {"top_k": 12, "top_p": 0.8, "min_p": 0.05},
    {"top_k": 10_000, "top_p": 0.9},
]


@pytest.mark.parametrize("candidates", [256, 4])
@pytest.mark.parametrize("limits", LIMITS)
def test_draws_follow_the_distribution(limits: dict, candidates: int, monkeypatch) -> None:
    """With 4 candidates most nuclei are not covered at first, so the fallback is what is tested."""
    monkeypatch.setattr(engine.draw, "NUM_CANDIDATES", candidates)
    logits = torch.randn(VOCAB, generator=torch.Generator().manual_seed(3)) * 2
    expected = expected_distribution(logits, params(**limits))
    drawn = tokens_of(logits.expand(4000, -1), [params(seed=i, **limits) for i in range(4000)])
    counts = np.bincount(drawn, minlength=VOCAB)
    assert counts[expected == 0].sum() == 0
    assert chi_square(counts, expected) < 4


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("scale", [0.5, 4.0])
def test_the_candidates_are_no_approximation(limits: dict, scale: float, monkeypatch) -> None:
    logits = torch.randn(30, 5000, generator=torch.Generator().manual_seed(1)) * scale
    sampling = [params(seed=i, **limits) for i in range(30)]
    few = tokens_of(logits, sampling)
    monkeypatch.setattr(engine.draw, "NUM_CANDIDATES", 5000)
    assert few == tokens_of(logits, sampling)
    for row, p in enumerate(sampling):
        kept = expected_distribution(logits[row], p)
        cumulative = kept.cumsum()
        assert few[row] == np.searchsorted(cumulative, uniform(p.seed, 0, 0) * cumulative[-1], side="right")


def test_equal_tokens_stay_or_go_together() -> None:
    logits = torch.tensor([1.0, 3.0, 3.0, 3.0, 0.0])
    for limits in ({"top_k": 1}, {"top_p": 0.01}, {"min_p": 0.9}):
        drawn = tokens_of(logits.expand(200, -1), [params(seed=i, **limits) for i in range(200)])
        assert set(drawn) == {1, 2, 3}


@pytest.mark.parametrize("limits", [{"min_p": 1.0}, {"top_k": 300, "min_p": 1.0}])
@pytest.mark.parametrize("vocab", [VOCAB, 1000])
def test_a_nucleus_that_holds_next_to_everything_lifts_no_other_limit(vocab: int, limits: dict) -> None:
    """Rounding alone can keep all tokens together from reaching such a share of their sum."""
    logits = torch.randn(50, vocab, generator=torch.Generator().manual_seed(5))
    sampling = [params(seed=i, top_p=math.nextafter(1.0, 0.0), **limits) for i in range(50)]
    assert tokens_of(logits, sampling) == logits.argmax(-1).tolist()


def test_randomness_depends_on_seed_choice_and_position_alone() -> None:
    logits = torch.zeros(1, 1000)
    base = tokens_of(logits, [params(seed=7)])
    assert base == tokens_of(logits, [params(seed=7)])
    assert base != tokens_of(logits, [params(seed=8)])
    assert base != tokens_of(logits, [params(seed=7)], choice=1)
    assert base != tokens_of(logits, [params(seed=7)], generated=(5,))
    assert uniform(-1, 0, 0) != uniform(2**63, 0, 0)
    many = np.array([uniform(s, c, p) for s in range(10) for c in range(10) for p in range(20)])
    assert abs(many.mean() - 0.5) < 0.02
    assert len(set(many)) == 2000


@pytest.mark.parametrize("vocab", [VOCAB, 3001])
def test_a_row_does_not_depend_on_its_batch(vocab: int) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(24, vocab, generator=generator) * 3
    kinds = [
        *LIMITS,
        {"temperature": 0.0},
        {"frequency_penalty": 1.0},
        {"logit_bias": {3: 5.0}},
        {"top_p": 0.999},
    ]
    sequences = [
        make_sequence(
            [1, 2], params(seed=i, num_top_logprobs=i % 3, **kinds[i % len(kinds)]), generated=(4, 4, 9)
        )
        for i in range(24)
    ]
    together = sample(logits, sequences)
    alone = [sample(logits[i : i + 1], [sequences[i]])[0] for i in range(24)]
    assert together == alone


def test_a_broken_row_fails_alone() -> None:
    logits = torch.zeros(4, VOCAB)
    logits[:, 6] = 1.0
    logits[1, 3] = float("nan")
    logits[2, 3] = float("inf")
    results = sample(logits, [make_sequence([1], params(temperature=t)) for t in (0.0, 1.0, 0.0, 0.0)])
    assert [isinstance(result, RowFault) for result in results] == [False, True, True, False]
    assert results[0] == results[3] == SampledToken(6, None)


def test_penalties() -> None:
    logits = torch.tensor([[0.0, 2.0, 2.1, -1.0, 1.8]])
    assert tokens_of(logits, [params(temperature=0.0, presence_penalty=0.5)], generated=(2,)) == [1]
    assert tokens_of(logits, [params(temperature=0.0, frequency_penalty=0.1)], generated=(2, 1, 2, 2)) == [1]
    # The prompt [1, 2] counts for repetition only.
    assert tokens_of(logits, [params(temperature=0.0, presence_penalty=2.0)]) == [2]
    assert tokens_of(logits, [params(temperature=0.0, repetition_penalty=1.3)]) == [4]
    negative = torch.tensor([[-5.0, -1.0, -1.1, -4.0, -1.2]])
    assert tokens_of(negative, [params(temperature=0.0, repetition_penalty=1.3)]) == [4]


def test_bias_bans_and_minimum_length() -> None:
    logits = torch.tensor([[0.0, 1.0, 2.0, 3.0]]).expand(2, -1)
    stop = params(temperature=0.0, min_tokens=2, stop_token_ids=(3,))
    assert tokens_of(logits[:1], [stop], generated=(1,)) == [2]
    assert tokens_of(logits[:1], [stop], generated=(1, 1)) == [3]
    assert tokens_of(logits, [params(temperature=0.0, logit_bias={0: 100.0}), params(temperature=0.0)]) == [
        0,
        3,
    ]
    assert tokens_of(logits[:1], [params(logit_bias={3: -1000.0, 2: -1000.0, 1: -1000.0})]) == [0]
    outside = [make_sequence([1], params(logit_bias={4: 1.0})), make_sequence([1], params(temperature=0.0))]
    results = sample(logits, outside)
    assert isinstance(results[0], RowFault)
    assert results[1] == SampledToken(3, None)


class Matcher:
    def __init__(self, allowed: list[int], num_words: int = 2) -> None:
        bits = np.zeros(32 * num_words, dtype=np.uint8)
        bits[allowed] = 1
        self._words = np.packbits(bits, bitorder="little").view(np.uint32)

    def mask(self) -> np.ndarray:
        return self._words


class BrokenMatcher:
    def mask(self) -> np.ndarray:
        raise RuntimeError("too many states")


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_grammar_limits_its_own_row(temperature: float) -> None:
    logits = torch.randn(5, VOCAB, generator=torch.Generator().manual_seed(2))
    sequences = [make_sequence([1], params(temperature=temperature, num_top_logprobs=2)) for _ in range(5)]
    free = sample(logits, sequences)
    for sequence, matcher in zip(
        sequences[1:],
        (Matcher([33, 5]), Matcher([]), BrokenMatcher(), Matcher([7], num_words=1)),
        strict=True,
    ):
        sequence.matcher = matcher
    first, second, third, fourth, fifth = sample(logits, sequences)
    assert first == free[0]
    assert isinstance(second, SampledToken)
    assert second.token_id in (33, 5)
    assert isinstance(third, RowFault)
    assert isinstance(fourth, RowFault)
    assert "too many states" in fourth.message
    assert isinstance(fifth, SampledToken)
    assert fifth.token_id == 7


def test_a_grammar_within_a_nucleus_needs_no_wider_search() -> None:
    logits = torch.randn(1, 5000, generator=torch.Generator().manual_seed(2))
    sequence = make_sequence([1], params(top_k=50, top_p=0.9))
    sequence.matcher = Matcher([100, 4000], num_words=157)
    result = sample(logits, [sequence])[0]
    assert isinstance(result, SampledToken)
    assert result.token_id in (100, 4000)


def test_logprobs_are_of_the_raw_distribution() -> None:
    logits = torch.randn(1, VOCAB, generator=torch.Generator().manual_seed(4))
    expected = logits[0].double().log_softmax(-1)
    sampling = params(temperature=0.3, top_k=1, logit_bias={5: 100.0}, num_top_logprobs=VOCAB)
    result = sample(logits, [make_sequence([1], sampling)])[0]
    assert isinstance(result, SampledToken)
    assert result.token_id == 5
    assert result.logprobs is not None
    assert result.logprobs.chosen == pytest.approx(float(expected[5]), abs=1e-5)
    top = dict(result.logprobs.top)
    assert sum(np.exp(list(top.values()))) == pytest.approx(1.0, abs=1e-5)
    assert [i for i, _ in result.logprobs.top] == expected.argsort(descending=True).tolist()


def test_logprobs_are_finite_and_the_greedy_token_leads_among_equals() -> None:
    logits = torch.full((1, 200), 2.0)
    logits[0, 100:] = float("-inf")
    result = sample(logits, [make_sequence([1], params(temperature=0.0, num_top_logprobs=5))])[0]
    assert isinstance(result, SampledToken)
    assert result.logprobs is not None
    assert result.logprobs.top[0][0] == result.token_id == 0
    logits[0, 1:] = float("-inf")
    result = sample(logits, [make_sequence([1], params(temperature=0.0, num_top_logprobs=2))])[0]
    assert isinstance(result, SampledToken)
    assert result.logprobs is not None
    assert result.logprobs.top[1][1] == FLOOR


def test_no_logprobs_unless_asked_and_only_the_chosen_one_for_zero() -> None:
    results = sample(torch.zeros(2, 9), [make_sequence([1], params(num_top_logprobs=n)) for n in (None, 0)])
    assert isinstance(results[0], SampledToken)
    assert isinstance(results[1], SampledToken)
    assert results[0].logprobs is None
    assert results[1].logprobs is not None
    assert results[1].logprobs.top == ()
    assert results[1].logprobs.chosen == pytest.approx(-np.log(9))


@pytest.mark.parametrize("temperature", [5e-324, 1e-50, 1e-46, 1e-40, 1e-7])
@pytest.mark.parametrize("limits", [{}, {"top_p": 0.5}, {"top_k": 3}, {"min_p": 0.1}])
def test_a_temperature_next_to_nothing_takes_the_best(temperature: float, limits: dict) -> None:
    """Such a temperature is 0 in float32: a row divided by it has no number left, and no token to draw."""
    logits = torch.randn(3, 300, generator=torch.Generator().manual_seed(3))
    cold = params(temperature=temperature, num_top_logprobs=2, **limits)
    assert tokens_of(logits, [cold] * 3) == logits.argmax(-1).tolist()
