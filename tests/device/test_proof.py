"""Cold and warm on every device: the same answers, equal to those that `transformers` gives on the CPU."""

import pytest

from tests.device.devices import DEVICES
from tests.proof.families import mixes, model
from tests.proof.rig import Rig
from tests.proof.test_equal_to_transformers import check, prompt


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["qwen2_5_omni", "gemma3"])
def test_cold_and_warm(name: str, device: str) -> None:
    rig = Rig(model(name, "sdpa", device), backend="sdpa")
    pieces = list(mixes(name).values())[-1]
    (cold,) = rig.run([prompt(name, pieces)])
    check(name, pieces, cold)
    (warm,) = rig.run([prompt(name, pieces)])
    check(name, pieces, warm)
    assert warm.tokens == cold.tokens
    assert cold.num_cached == 0
    assert warm.num_cached > 0
