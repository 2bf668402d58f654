"""A CUDA graph without a GPU: what a call computes is kept, operation by operation, and done again.

Every operation is done again on the very tensors that it was given, whatever has been written to them since,
and its result goes where it went. What Python knew while it was recorded (a length, a position, a slot) is
not asked again, and shows as a wrong answer, as it would in a CUDA graph. Where the host would have to wait
for the device, recording raises.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_flatten

from engine.attention.triton_kernels import attend, join, write
from engine.attention.triton_kernels.dialect import launch

WAITS = {"_local_scalar_dense", "item", "nonzero", "masked_select", "is_nonzero", "equal", "_unique2"}
"""Operations whose result, or whose shape, the host has to know."""


class HostWaits(Exception):
    """The host would wait for the device here."""


class NoWaits(TorchDispatchMode):
    """Raises where the host would wait for the device: a number, a shape, or a copy from one to the other."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        if name in WAITS:
            raise HostWaits(name)
        result = function(*args, **(kwargs or {}))
        devices = {
            x.device.type for x in tree_flatten((args, kwargs, result))[0] if isinstance(x, torch.Tensor)
        }
        if name in ("_to_copy", "copy_", "to") and len(devices) > 1:
            raise HostWaits(f"{name} between {' and '.join(sorted(devices))}")
        self.done(function, args, kwargs or {}, result)
        return result

    def done(self, function: Any, args: Any, kwargs: Any, result: Any) -> None: ...


class TapeRecording(NoWaits):
    """`decode_graphs.Recorder`: TapeRecording(call) is a recording of it."""

    def __init__(self, call: Callable[[], torch.Tensor]) -> None:
        super().__init__()
        self._tape: list[Callable[[], object]] = []
        with pytest.MonkeyPatch.context() as patch:
            for module in (attend, join, write):
                patch.setattr(module, "launch", self._launch)
            with self:
                self.output = call()

    def replay(self) -> None:
        for again in self._tape:
            again()

    def done(self, function: Any, args: Any, kwargs: Any, result: Any) -> None:
        results = [x for x in tree_flatten(result)[0] if isinstance(x, torch.Tensor)]

        def again() -> None:
            found = [x for x in tree_flatten(function(*args, **kwargs))[0] if isinstance(x, torch.Tensor)]
            for target, source in zip(results, found, strict=True):
                if target.data_ptr() != source.data_ptr():  # no view, and not changed in place
                    target.copy_(source)

        self._tape.append(again)

    def _launch(self, kernel: Any, grid: tuple[int, ...], *arguments: Any, **constants: Any) -> None:
        def again() -> None:
            launch(kernel, grid, *arguments, **constants)

        with _disable_current_modes():
            again()
        self._tape.append(again)
