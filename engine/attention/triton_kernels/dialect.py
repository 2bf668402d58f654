"""What all kernels share: how they are launched, and how they multiply where they run as Python.

They do with TRITON_INTERPRET=1, set before triton is imported.
"""

from typing import Any

import triton
import triton.language as tl
from triton import knobs

INTERPRETED: bool = knobs.runtime.interpret
"""In the interpreter a product of bfloat16 matrices multiplies their raw bits: operands are widened first."""


@triton.jit
def product(a, b, INTERPRETED: tl.constexpr):
    """a @ b in float32. "ieee": float32 operands stay whole, tensor cores would round them to 10 bits."""
    if INTERPRETED:
        a = a.to(tl.float32)
        b = b.to(tl.float32)
    return tl.dot(a, b, input_precision="ieee")


def launch(kernel: Any, grid: tuple[int, ...], *arguments: Any, **constants: int | bool) -> None:
    """A program for each place of `grid`. Triton's types don't know what a launch takes."""
    kernel[grid](*arguments, **constants)
