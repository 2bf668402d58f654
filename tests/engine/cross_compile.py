"""Compiles every kernel for two GPUs, none of which need be there, and prints a line of JSON each.

    python -m tests.engine.cross_compile DTYPE HEADS KV_HEADS HEAD_DIM

By itself in a process: triton is imported without its interpreter here.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from engine.attention.triton_kernels import attend, join, tiles, write
from models.interface import AttentionSpec

TYPES = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float32: "fp32"}
POINTERS = {
    "tables": "i32",
    "sight": "i32",
    "work": "i32",
    "num_items": "i32",
    "joins": "i32",
    "slots": "i32",
    "weights": "fp32",
}
NUMBERS = {"q_stride": "i32", "key_stride": "i32", "value_stride": "i32", "scale": "fp32"}


def compiled(kernel, element: str, constants: dict, capability: int, parts: bool = False, **options: int):
    """As a launch would: pointers and distances are multiples of 16."""
    names = [name for name in kernel.arg_names if name not in constants]
    signature = dict.fromkeys(kernel.arg_names, "constexpr")
    for name in names:
        kind = "fp32" if name == "parts" or (parts and name == "out") else POINTERS.get(name, element)
        signature[name] = NUMBERS.get(name) or f"*{kind}"
    aligned = {
        (kernel.arg_names.index(name),): [["tt.divisibility", 16]] for name in names if name != "scale"
    }
    values = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    source = ASTSource(kernel, signature, values, aligned)
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)


def spilled_bytes(ptx: str, capability: int) -> int:
    """What the assembler says it keeps in memory for want of registers."""
    architecture = "sm_90a" if capability == 90 else f"sm_{capability}"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "kernel.ptx")
        source.write_text(ptx)
        ptxas = Path(triton.__file__).parent / "backends/nvidia/bin/ptxas"
        command = [str(ptxas), "-v", f"--gpu-name={architecture}", str(source), "-o", str(source) + ".cubin"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    found = re.findall(r"(\d+) bytes spill stores", said)
    assert found, said
    return max(map(int, found))


def kernels(spec: AttentionSpec, dtype: torch.dtype, capability: int):
    element, group = TYPES[dtype], spec.num_heads // spec.num_kv_heads
    for kind in (tiles.decode_tile, tiles.tail_tile, tiles.prefill_tile):
        tile = kind(group, spec.head_dim, dtype)
        yield (
            kind.__name__,
            compiled(
                attend.attend_tiles,
                element,
                attend.constants(spec, tile),
                capability,
                tile.parts,
                num_warps=tile.num_warps,
                num_stages=tile.num_stages,
            ),
        )
    yield "join", compiled(join.join_parts, element, join.constants(spec, 1), capability)
    size = spec.num_kv_heads * spec.head_dim
    constants = {"SIZE": size, "BLOCK": tiles.power_of_two(size)}
    yield "write", compiled(write.write_rows, element, constants, capability)


def main() -> None:
    spec = AttentionSpec(*map(int, sys.argv[2:]), 0.1, (None,))
    for capability in (80, 90):
        for name, kernel in kernels(spec, getattr(torch, sys.argv[1]), capability):
            result = {
                "kernel": f"{name} sm_{capability}",
                "spilled_bytes": spilled_bytes(kernel.asm["ptx"], capability),
                "shared_bytes": kernel.metadata.shared,
            }
            print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
