"""The tensors behind block ids and encodings: the only file here that knows torch. Decides nothing."""

import math
import mmap
from collections.abc import Sequence

import torch

from kvcache.encodings import EncodingId
from kvcache.match import BlockCopy
from kvcache.sequence import BLOCK_SIZE


def kv_block_bytes(
    num_layers: int, num_kv_heads: int, head_dim: int, dtype: torch.dtype, block_size: int = BLOCK_SIZE
) -> int:
    """Bytes that one block takes in all layers, keys and values together."""
    return num_layers * 2 * block_size * num_kv_heads * head_dim * dtype.itemsize


class KVPages:
    """Keys and values of every block, [num_layers, 2, num_blocks, block_size, num_kv_heads, head_dim] in one
    piece.

    Zeros at first, so that rows which attention masks out are finite from the start. On a CPU a page takes
    memory from its first use on, not before.
    """

    def __init__(
        self,
        num_layers: int,
        num_blocks: int,
        num_kv_heads: int,
        head_dim: int,
        dtype: torch.dtype,
        device: torch.device | str = "cpu",
        block_size: int = BLOCK_SIZE,
    ) -> None:
        self.num_blocks = num_blocks
        shape = (num_layers, 2, num_blocks, block_size, num_kv_heads, head_dim)
        self.pages = (
            _untouched_zeros(shape, dtype)
            if torch.device(device).type == "cpu"
            else torch.zeros(shape, dtype=dtype, device=device)
        )

    def layer(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of one layer: views, each [num_blocks, block_size, num_kv_heads, head_dim]."""
        return self.pages[index, 0], self.pages[index, 1]

    def copy(self, copies: Sequence[BlockCopy]) -> None:
        """Whole blocks in all layers, whatever order a back end keeps within them. All sources are read
        first: what lies between takes memory, of one layer at a time."""
        sources, targets = torch.tensor(copies, device=self.pages.device).T
        for layer in self.pages:
            layer[:, targets] = layer[:, sources]


def _untouched_zeros(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Zeros straight from the kernel, which gives them memory as they are touched; torch.zeros writes
    them."""
    mapping = mmap.mmap(-1, math.prod(shape) * dtype.itemsize, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return torch.frombuffer(mapping, dtype=dtype).view(shape)


class EncodingStore:
    """Encoder outputs, each [num_tokens, encoding_width]. `EncodingCache` says what is held; this does as it
    is told."""

    def __init__(self) -> None:
        self._tensors: dict[EncodingId, torch.Tensor] = {}

    def put(self, encoding: EncodingId, tensor: torch.Tensor) -> None:
        """Keep the tensor, a copy where it is a view of something larger: that would stay in memory with it,
        uncounted."""
        whole = tensor.untyped_storage().nbytes() == tensor.nbytes
        self._tensors[encoding] = tensor if whole else tensor.clone(memory_format=torch.contiguous_format)

    def get(self, encoding: EncodingId) -> torch.Tensor:
        """KeyError when it was never put or has been dropped."""
        return self._tensors[encoding]

    def drop(self, encoding: EncodingId) -> None:
        """Free it. Unknown: no-op (a reservation may be evicted before its tensor came)."""
        self._tensors.pop(encoding, None)
