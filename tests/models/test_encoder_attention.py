import pytest
import torch
import torch.nn.functional as F

from models import encoder_attention
from models.encoder_attention import attend, attend_in_runs


def qkv(*shape: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator) for _ in range(3)]


@pytest.mark.parametrize("scores_at_once", [1, 2 * 3 * 20 * 7, 1 << 22])
def test_bfloat16_differs_by_the_rounding_of_scores_alone(
    monkeypatch: pytest.MonkeyPatch, scores_at_once: int
) -> None:
    monkeypatch.setattr(encoder_attention, "_multiplies_bfloat16", lambda: True)
    monkeypatch.setattr(encoder_attention, "_SCORES_AT_ONCE", scores_at_once)
    q, k, v = (x.bfloat16() for x in qkv(2, 3, 20, 16))
    exact = F.scaled_dot_product_attention(q.double(), k.double(), v.double())
    # Scores up to 4, probabilities and results: three roundings of 2^-9 each.
    torch.testing.assert_close(attend(q, k, v).double(), exact, atol=0.03, rtol=0.01)


def test_queries_and_keys_may_differ_in_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder_attention, "_multiplies_bfloat16", lambda: True)
    q, k, v = (x.bfloat16() for x in qkv(1, 2, 12, 16))
    few = k[:, :, :5], v[:, :, :5]
    expected = F.scaled_dot_product_attention(q.float(), few[0].float(), few[1].float())
    torch.testing.assert_close(attend(q, *few).float(), expected, atol=0.03, rtol=0.01)


def test_rows_see_their_own_run_and_no_other() -> None:
    q, k, v = qkv(2, 11, 8)
    whole = attend_in_runs(q, k, v, [(2, 3), (1, 5)])
    for rows in (slice(0, 3), slice(3, 6), slice(6, 11)):
        alone = attend(q[None, :, rows], k[None, :, rows], v[None, :, rows])[0].transpose(0, 1).flatten(1)
        torch.testing.assert_close(whole[rows], alone)
