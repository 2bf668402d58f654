"""What is copied to and within a device is what was meant, whatever else the device is busy with."""

import numpy as np
import pytest
import torch

from engine.attention.device_buffer import DeviceBuffer, FixedBuffer
from kvcache.match import BlockCopy
from kvcache.pages import KVPages
from tests.device.devices import DEVICES

CYCLES = 50_000_000
"""Tens of milliseconds: long enough for the host to be far ahead."""


@pytest.mark.parametrize("device", DEVICES)
def test_a_plan_stays_until_those_that_read_it_are_done(device: str) -> None:
    """The next one is uploaded while a kernel before the readers still runs, and the host's memory is used
    again."""
    buffer, rng = DeviceBuffer(torch.device(device)), np.random.default_rng(0)
    plans = [[rng.integers(0, 1 << 30, size, dtype=np.int32) for size in (5, 4096, 17)] for _ in range(6)]
    buffer.upload(plans[0])  # so that it need not grow any more
    read = []
    for plan in plans:
        if device == "cuda":
            torch.cuda._sleep(CYCLES)
        read.append([view.clone() for view in buffer.upload(plan)])
    for found, plan in zip(read, plans, strict=True):
        for tensor, array in zip(found, plan, strict=True):
            assert np.array_equal(tensor.cpu().numpy(), array)


@pytest.mark.parametrize("device", DEVICES)
def test_fixed_places_take_what_fits(device: str) -> None:
    buffer = FixedBuffer([(3,), (4, 2), (5,)], torch.device(device))
    addresses = [place.data_ptr() for place in buffer.places]
    assert all(address % 16 == addresses[0] % 16 for address in addresses)
    for sizes in ((3, 4, 5), (1, 2, 0), (3, 1, 2)):
        first, second, third = (np.arange(size, dtype=np.int32) + 7 * size for size in sizes)
        assert buffer.upload([first, np.stack([second, -second], 1), third])
        assert [place.data_ptr() for place in buffer.places] == addresses
        found = [place[:size].tolist() for place, size in zip(buffer.places, sizes, strict=True)]
        assert found == [first.tolist(), np.stack([second, -second], 1).tolist(), third.tolist()]
    assert not buffer.upload([np.zeros(3, np.int32), np.zeros((4, 2), np.int32), np.zeros(6, np.int32)])
    assert buffer.places[0].tolist() == first.tolist()


@pytest.mark.parametrize("device", DEVICES)
def test_blocks_are_copied_with_every_source_read_first(device: str) -> None:
    pages = KVPages(3, 6, 2, 4, torch.bfloat16, device)
    pages.pages.copy_(torch.randn(pages.pages.shape, generator=torch.Generator().manual_seed(0)))
    expected = pages.pages.cpu().clone()
    expected[:, :, [1, 3, 5]] = expected[:, :, [0, 1, 1]]
    pages.copy([BlockCopy(0, 1), BlockCopy(1, 3), BlockCopy(1, 5)])
    assert torch.equal(pages.pages.cpu(), expected)
