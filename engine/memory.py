"""How many blocks of keys and values fit, and how much memory there is to begin with."""

from math import isqrt
from pathlib import Path

import torch

from engine.attention.sdpa import workspace_bytes as sdpa_workspace_bytes
from engine.attention.triton_kernels.tiles import WORKSPACE_BYTES as TRITON_WORKSPACE_BYTES
from engine.cgroup import memory_left_bytes
from engine.config import EngineConfig
from engine.decode_graphs import row_counts
from kvcache.pages import kv_block_bytes
from kvcache.sequence import BLOCK_SIZE
from models.interface import ServedModel

CPU_SHARE = 0.25
"""Of the memory that is free once the model is loaded: the machine has other uses for the rest."""
CPU_MOST_BYTES = 4 << 30
"""A limit, not a reservation: pages take memory as they are first used."""
CUDA_RESERVE = 0.08
"""Of the device's whole memory, kept for activations and what libraries set aside."""
SAMPLING_BYTES = 36
"""For each logit of a step that draws all its tokens: as it came, scaled, as a weight, and summed up in
float64."""
GRAPH_BYTES = 16 << 20
"""For each number of rows whose decode step is recorded: what the driver keeps of it, and its share of what
is computed in it. A guess on the safe side, never measured."""
FEWEST_BLOCKS = 8
ENCODER_CACHE_BYTES = 256 << 20
_LARGE_SIDE = 1 << 14
"""Pixels: a picture with such sides is as large as any becomes."""


def block_bytes(model: ServedModel) -> int:
    """Keys and values of one block, all layers."""
    spec = model.attention
    return kv_block_bytes(spec.num_layers, spec.num_kv_heads, spec.head_dim, model.dtype)


def encoder_cache_bytes(model: ServedModel, config: EngineConfig) -> int:
    """As configured; else enough for any picture: a photograph may take more than is held for most models
    where several layers of the tower are read (Qwen3-VL, 8B: 32 KiB a token)."""
    if config.encoder_cache_bytes or "image" not in model.processing.kinds:
        return config.encoder_cache_bytes or ENCODER_CACHE_BYTES
    square = model.processing.image_layout(_LARGE_SIDE, _LARGE_SIDE).num_tokens
    num_tokens = (isqrt(square) + 1) ** 2  # in other proportions less is lost to rounding
    return max(ENCODER_CACHE_BYTES, num_tokens * model.encoding_width * model.dtype.itemsize)


def num_blocks(model: ServedModel, config: EngineConfig) -> int:
    """Blocks for the configured memory, or for what is free now. No more than all sequences could ever use.
    config: with the back end and the encoder cache settled.

    ValueError if too few fit to be of any use.
    """
    size = block_bytes(model)
    longest = -(-(config.max_model_len or model.max_positions) // BLOCK_SIZE)
    capacity = config.kv_cache_bytes or _free_bytes(model, config, longest)
    # Twice what can run at once: the other half remembers.
    fitting = min(capacity // size, 2 * longest * config.max_num_seqs)
    fewest = min(FEWEST_BLOCKS, longest)
    if fitting < fewest:
        raise ValueError(
            f"{capacity / 2**20:.1f} MiB for keys and values hold {capacity // size} blocks of "
            f"{BLOCK_SIZE} tokens; kv_cache_memory must be at least {fewest * size / 2**20:.1f} MiB"
        )
    if config.kv_cache_bytes and fitting * size > (free := _unreserved_bytes(model)):
        raise ValueError(
            f"kv_cache_memory: {fitting * size / 2**30:.1f} GiB are asked for, "
            f"but only {free / 2**30:.1f} GiB are free beside the model"
        )
    return fitting


def _unreserved_bytes(model: ServedModel) -> int:
    if model.device.type == "cuda":
        torch.cuda.empty_cache()
        return torch.cuda.mem_get_info(model.device)[0]
    return _available_bytes()


def _free_bytes(model: ServedModel, config: EngineConfig, longest: int) -> int:
    """longest: blocks of the longest sequence."""
    if model.device.type == "cuda":
        free, total = _unreserved_bytes(model), torch.cuda.mem_get_info(model.device)[1]
        logits = SAMPLING_BYTES * config.max_num_seqs * model.vocab_size
        free = max(0, int(free - CUDA_RESERVE * total) - config.encoder_cache_bytes - logits)
        return max(0, free - _attention_bytes(model, config, longest, free))
    return min(int(CPU_SHARE * _available_bytes()), CPU_MOST_BYTES)


def _attention_bytes(model: ServedModel, config: EngineConfig, longest: int, free: int) -> int:
    """What the back end takes for itself on a GPU, and recordings of its steps."""
    if config.attention_backend == "triton":
        num_graphs = len(row_counts(config.max_num_seqs)) if config.cuda_graphs else 0
        return TRITON_WORKSPACE_BYTES + num_graphs * GRAPH_BYTES
    return _sdpa_bytes(model, longest, free)


def _sdpa_bytes(model: ServedModel, longest: int, free: int) -> int:
    """For the longest sequence that there can be: what its own blocks leave of `free` bounds it too."""
    fixed, with_one = (sdpa_workspace_bytes(model.attention, model.dtype, n) for n in (0, BLOCK_SIZE))
    fitting = max(0, free - fixed) // (block_bytes(model) + with_one - fixed)
    return sdpa_workspace_bytes(model.attention, model.dtype, min(longest, fitting) * BLOCK_SIZE)


def _available_bytes() -> int:
    """What this process may still take: the machine's free memory, or what is left of its control group's
    limit."""
    meminfo = Path("/proc/meminfo").read_text(encoding="ascii")
    lines = dict(line.split(":", 1) for line in meminfo.splitlines())
    available = int(lines["MemAvailable"].split()[0]) * 1024
    left = memory_left_bytes()
    return available if left is None else min(available, left)


def is_out_of_memory(error: Exception) -> bool:
    """Of the host or the device; torch's allocator on the CPU raises a bare RuntimeError."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(error)
