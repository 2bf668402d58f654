from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kvcache.encodings import EncodingId
from kvcache.keys import MediaKey
from kvcache.match import BlockCopy
from kvcache.pages import EncodingStore, KVPages, kv_block_bytes

CAT = EncodingId(b"", MediaKey(b"c" * 32))


def test_layers_are_views_of_one_tensor():
    pages = KVPages(num_layers=3, num_blocks=5, num_kv_heads=2, head_dim=8, dtype=torch.bfloat16)
    assert pages.pages.shape == (3, 2, 5, 16, 2, 8)
    keys, values = pages.layer(1)
    assert keys.shape == values.shape == (5, 16, 2, 8)
    keys[4, 15], values[0, 0] = 1, 2
    assert pages.pages[1, 0, 4, 15].eq(1).all()
    assert pages.pages[1, 1, 0, 0].eq(2).all()
    assert pages.pages.sum() == 2 * 8 * (1 + 2)


def test_bytes_of_a_block_are_those_of_the_tensor():
    pages = KVPages(num_layers=3, num_blocks=5, num_kv_heads=2, head_dim=8, dtype=torch.float32)
    assert kv_block_bytes(3, 2, 8, torch.float32) == 3 * 2 * 16 * 2 * 8 * 4
    assert pages.pages.nbytes == 5 * kv_block_bytes(3, 2, 8, torch.float32)


def test_store_puts_gets_and_drops():
    store = EncodingStore()
    tensor = torch.ones(4, 8)
    store.put(CAT, tensor)
    assert store.get(CAT) is tensor
    store.drop(CAT)
    store.drop(CAT)
    with pytest.raises(KeyError):
        store.get(CAT)


def test_store_does_not_keep_a_whole_batch_for_one_of_its_rows():
    batch = torch.arange(80.0).reshape(10, 8)
    store = EncodingStore()
    store.put(CAT, batch[2:4])
    held = store.get(CAT)
    assert held.equal(batch[2:4])
    assert held.untyped_storage().nbytes() == held.nbytes


def test_pages_on_a_cpu_take_no_memory_before_they_are_used():
    def resident_kib() -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmRSS")).split()[1])

    before = resident_kib()
    pages = KVPages(num_layers=4, num_blocks=4096, num_kv_heads=4, head_dim=64, dtype=torch.bfloat16)
    assert pages.pages.nbytes == 256 << 20
    assert resident_kib() - before < 16 << 10
    pages.layer(3)[1][-1] = 1
    assert pages.pages[:, :, -1].sum() == 16 * 4 * 64


def test_copies_read_every_source_before_a_target_is_written() -> None:
    pages = KVPages(num_layers=2, num_blocks=4, num_kv_heads=1, head_dim=2, dtype=torch.float32, block_size=2)
    pages.pages += torch.arange(4.0)[:, None, None, None]
    pages.copy([BlockCopy(0, 1), BlockCopy(1, 3)])
    assert torch.equal(pages.pages[1, 1, :, 0, 0, 0], torch.tensor([0.0, 0.0, 2.0, 1.0]))


class Uploads(TorchDispatchMode):
    """Counts tensors that are made of numbers of the host."""

    num = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.num += func is torch.ops.aten.lift_fresh.default
        return func(*args, **(kwargs or {}))


def test_the_numbers_of_copied_blocks_are_uploaded_once_for_all_layers() -> None:
    """Each upload makes the host wait for the device."""
    pages = KVPages(num_layers=5, num_blocks=4, num_kv_heads=1, head_dim=2, dtype=torch.float32, block_size=2)
    with Uploads() as uploads:
        pages.copy([BlockCopy(0, 1), BlockCopy(2, 3)])
    assert uploads.num == 1
