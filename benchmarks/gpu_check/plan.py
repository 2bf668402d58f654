"""What is measured, and how large. Knows neither torch nor how anything is measured."""

from typing import NamedTuple


class Heads(NamedTuple):
    num_heads: int
    num_kv_heads: int
    head_dim: int


class Shape(NamedTuple):
    """`batch` sequences, each with `new` tokens behind `cached` ones: a decode step where `new` is 1."""

    batch: int
    cached: int
    new: int

    @property
    def title(self) -> str:
        if self.new == 1:
            return f"decode {self.batch} x {self.cached}"
        return f"prefill {self.new}" + (f" behind {self.cached}" if self.cached else "")


class Plan(NamedTuple):
    """cell_s: seconds of one measurement. layers: whose pages take turns, so that a cache doesn't hold them.

    decode_sizes, scales: names in `decode_floor.SIZES` and `checkpoint.SCALES`. context: tokens before a
    decode step. test_paths: below the root of the sources.
    """

    cell_s: float
    copied_bytes: int
    matrix_side: int
    heads: tuple[Heads, ...]
    shapes: tuple[Shape, ...]
    layers: int
    decode_sizes: tuple[str, ...]
    context: int
    scales: tuple[str, ...]
    users: tuple[int, ...]
    workloads: tuple[str, ...]
    test_paths: tuple[str, ...]
    test_processes: int


FULL = Plan(
    cell_s=0.2,
    copied_bytes=1 << 30,
    matrix_side=8192,
    heads=(Heads(16, 2, 128), Heads(32, 8, 128)),
    shapes=(
        Shape(1, 2048, 1),
        Shape(16, 2048, 1),
        Shape(64, 2048, 1),
        Shape(4, 16_384, 1),
        Shape(1, 0, 2048),
        Shape(1, 3840, 256),
    ),
    layers=8,
    decode_sizes=("0.5B", "3B"),
    context=1024,
    scales=("0.5b", "3b"),
    users=(1, 16, 64),
    workloads=("text", "image-cold", "image-repeat", "image-warm"),
    test_paths=("tests/device", "tests/engine/test_triton.py", "tests/engine/test_triton_compiles.py"),
    test_processes=4,
)
TOY = Plan(
    cell_s=0.01,
    copied_bytes=1 << 20,
    matrix_side=128,
    heads=(Heads(4, 2, 16),),
    shapes=(Shape(2, 64, 1), Shape(1, 0, 40), Shape(1, 48, 20)),
    layers=2,
    decode_sizes=("tiny",),
    context=48,
    scales=("tiny", "tiny"),
    users=(1, 2),
    workloads=("text", "image-repeat"),
    test_paths=("tests/device/test_memory.py",),
    test_processes=0,
)
PLANS = {"full": FULL, "toy": TOY}
