import pytest
import torch
import torch.nn.functional as F
from transformers.activations import ACT2FN

from models.activations import ACTIVATIONS
from models.linear import Linear, packed, stack


def linear(outputs: int, inputs: int, dtype: torch.dtype) -> Linear:
    generator = torch.Generator().manual_seed(outputs)
    weight, bias = (
        torch.randn(outputs, inputs, generator=generator),
        torch.randn(outputs, generator=generator),
    )
    return Linear((weight / inputs**0.5).to(dtype), bias.to(dtype))


@pytest.mark.parametrize("activation", [None, *ACTIVATIONS])
@pytest.mark.parametrize(("dtype", "ulp"), [(torch.float32, 2**-20), (torch.bfloat16, 2**-7)])
def test_packing_changes_nothing_but_rounding(activation: str | None, dtype: torch.dtype, ulp: float) -> None:
    part = linear(48, 40, dtype)
    assert part.bias is not None
    x = torch.randn(2, 5, 40, generator=torch.Generator().manual_seed(1)).to(dtype)
    exact = F.linear(x.double(), part.weight.double(), part.bias.double())
    exact = exact if activation is None else ACT2FN[activation](exact)
    actual = packed(part, activation)(x)
    assert actual.dtype == dtype
    torch.testing.assert_close(actual.double(), exact, atol=ulp, rtol=ulp)


def test_without_a_bias() -> None:
    part = Linear(linear(8, 16, torch.bfloat16).weight, None)
    x = torch.ones(3, 16, dtype=torch.bfloat16)
    torch.testing.assert_close(packed(part)(x), part(x), atol=2**-6, rtol=2**-7)


def test_stacked_maps_give_their_outputs_one_after_another() -> None:
    parts = [linear(8, 16, torch.float32), linear(24, 16, torch.float32)]
    x = torch.ones(2, 16)
    torch.testing.assert_close(stack(*parts)(x), torch.cat([part(x) for part in parts], dim=-1))
