"""A token is the same on every device: what is asked of it is heeded there too."""

import pytest
import torch

from engine.messages import SamplingParams
from engine.request import Sequence
from engine.sampler import sample
from engine.step import RowFault, SampledToken
from tests.device.devices import DEVICES
from tests.engine.sequences import make_sequence
from tests.engine.test_sampler import Matcher

VOCAB = 300
ASKED = {
    "plain": {},
    "frequency": {"frequency_penalty": 1.5},
    "presence": {"presence_penalty": 2.0},
    "repetition": {"repetition_penalty": 1.8},
    "bias": {"logit_bias": {5: 4.0, 250: -100.0, 7: 9.0}},
    "stop ids": {"stop_token_ids": (3, 8), "min_tokens": 20},
    "all": {"frequency_penalty": 0.7, "repetition_penalty": 1.2, "logit_bias": {11: 3.0}},
}
DRAWN = [{"temperature": 0.0}, {"temperature": 0.9, "seed": 3}, {"temperature": 1.3, "seed": 4, "top_k": 20}]


def sequences() -> list[Sequence]:
    found = []
    for changes in ASKED.values():
        for drawn in DRAWN:
            for grammar in (None, Matcher([5, 40, 41, 290], num_words=10)):
                sampling = SamplingParams(max_tokens=100, num_top_logprobs=4, **changes, **drawn)
                sequence = make_sequence([1, 2, 9], sampling, generated=(9, 30, 31, 30))
                sequence.matcher = grammar  # type: ignore[assignment]
                found.append(sequence)
    return found


@pytest.mark.parametrize("device", DEVICES)
def test_tokens_and_log_probabilities_are_those_of_each_row_alone_on_the_cpu(device: str) -> None:
    asked = sequences()
    logits = 3 * torch.randn(len(asked), VOCAB, generator=torch.Generator().manual_seed(1))
    found = sample(logits.to(device), asked)
    for row, sequence in enumerate(asked):
        (expected,) = sample(logits[row : row + 1], [sequence])
        actual = found[row]
        assert isinstance(expected, SampledToken)
        assert isinstance(actual, SampledToken)
        assert actual.token_id == expected.token_id
        assert actual.logprobs is not None
        assert expected.logprobs is not None
        assert [index for index, _ in actual.logprobs.top] == [index for index, _ in expected.logprobs.top]
        assert actual.logprobs.chosen == pytest.approx(expected.logprobs.chosen, abs=1e-5)
        for (_, a), (_, b) in zip(actual.logprobs.top, expected.logprobs.top, strict=True):
            assert a == pytest.approx(b, abs=1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_a_row_that_is_not_finite_fails_alone(device: str) -> None:
    logits = torch.randn(3, VOCAB, generator=torch.Generator().manual_seed(2))
    logits[1, 7] = float("nan")
    asked = [make_sequence([1], SamplingParams(max_tokens=4, temperature=0.0)) for _ in range(3)]
    first, second, third = sample(logits.to(device), asked)
    assert isinstance(second, RowFault)
    assert (first, third) == tuple(SampledToken(int(logits[row].argmax()), None) for row in (0, 2))
