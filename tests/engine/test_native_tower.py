"""A vision tower in C computes what the portable one computes."""

import numpy as np
import pytest
import torch

from engine.native.layers import NotFusable
from engine.native.library import Library
from engine.native.tower import NativeTower
from models.families.qwen_vision import QwenVision
from models.families.qwen_vision_config import VisionConfig
from models.weights import StateDict, Weights
from tests.models.test_qwen_towers import GRIDS, TOWERS, VALUES, patches, randomised

MACHINES = ["native", "x86-64-v3"]
# More patches than a part of attention has keys, and than rows that go together.
LONG = (18, 20)


def tower(kind: str = "qwen2_5_vl", dtype: torch.dtype = torch.float32, **changes: int) -> QwenVision:
    cls, config = TOWERS[kind]
    config = type(config)(**{**config.to_dict(), **changes})
    reference, _ = randomised(cls._from_config(config))
    weights = Weights(StateDict(reference.state_dict()), dtype, torch.device("cpu"))
    return QwenVision(VisionConfig.of(config), weights, VALUES)


def fused(made: QwenVision, machine: str = "native", threads: int = 1) -> QwenVision:
    made.fused = NativeTower(made, Library(threads, machine))
    return made


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("changes", [{}, {"intermediate_size": 60, "num_heads": 1}], ids=["even", "padded"])
@pytest.mark.parametrize("kind", ["qwen2_5_vl", "qwen2_5_omni"])
@torch.inference_mode()
def test_a_fused_tower_equals_the_portable_one(kind: str, changes: dict[str, int], machine: str) -> None:
    portable, native = tower(kind, **changes), fused(tower(kind, **changes), machine, threads=2)
    for rows, columns in (*GRIDS, LONG):
        values, grid = patches(portable, rows, columns), (1, rows, columns)
        torch.testing.assert_close(native(values, grid), portable(values, grid), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("machine", MACHINES)
@torch.inference_mode()
def test_in_bfloat16_a_fused_tower_is_no_worse_than_the_portable_one(machine: str) -> None:
    """Both are compared with float32 arithmetic on the same rounded weights."""
    exact = tower()
    values, grid = patches(exact, *LONG), (1, *LONG)
    exact.published = [
        type(block)(*(None if x is None else type(x)(*_rounded(x)) for x in block))
        for block in exact.published
    ]
    wanted = exact(values, grid)

    def error(made: QwenVision) -> float:
        return float((made(values, grid).float() - wanted).norm() / wanted.norm())

    native = error(fused(tower(dtype=torch.bfloat16), machine))
    assert native < error(tower(dtype=torch.bfloat16))
    assert native < 2e-2


def _rounded(tensors: tuple[torch.Tensor | None, ...]) -> list[torch.Tensor | None]:
    return [None if tensor is None else tensor.bfloat16().float() for tensor in tensors]


def test_what_the_kernels_do_not_do_stays_portable() -> None:
    library = Library(1)
    for made in (tower("qwen2_vl"), tower("qwen3_vl"), tower(dtype=torch.float16), tower(num_heads=2)):
        published = len(made.published)
        with pytest.raises(NotFusable):
            NativeTower(made, library)
        assert len(made.published) == published


def test_plans_say_where_each_patch_stands() -> None:
    made = tower()
    places = made._plan((1, 4, 8)).places
    assert places.shape == (2, 32)
    assert sorted(map(tuple, places.T.tolist())) == [(r, c) for r in range(4) for c in range(8)]
    assert np.array_equal(places[:, :4].T, [[0, 0], [0, 1], [1, 0], [1, 1]])
