"""Tensors by their published names, from whichever place holds them.

Knows names, shapes and dtypes; knows nothing of what a tensor is for. A family asks with `take`, naming the
alternatives under which a tensor has been published; nobody maps names anywhere else.
"""

import zlib
from collections.abc import Callable, Iterable
from copy import copy
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Protocol
from zipfile import is_zipfile

import torch
from safetensors import SafetensorError, safe_open

from models.checkpoint import Checkpoint, CheckpointError

Progress = Callable[[int, int], None]
"""Called with (bytes taken so far, bytes in all)."""


class TensorSource(Protocol):
    """Where tensors lie. `total_bytes` counts them all, wanted or not."""

    total_bytes: int

    def has(self, name: str) -> bool: ...

    def read(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        """The tensor of this name, which exists. shape: what the caller expects, and checks itself."""
        ...


class Weights:
    """A view of some sources, each below a prefix: `take` gives tensors in one dtype on one device.

    Where a name exists in several places of a view, the first counts.
    """

    def __init__(
        self,
        source: TensorSource,
        dtype: torch.dtype,
        device: torch.device,
        on_progress: Progress | None = None,
    ) -> None:
        self.dtype, self.device = dtype, device
        self._places: tuple[tuple[TensorSource, str], ...] = ((source, ""),)
        self._meter = _Meter(source.total_bytes, on_progress)

    @classmethod
    def open(
        cls,
        checkpoint: Checkpoint,
        dtype: torch.dtype,
        device: torch.device | str,
        on_progress: Progress | None = None,
    ) -> "Weights":
        """The checkpoint's own weights. Raises CheckpointError where there are none that can be read."""
        return cls(_source(checkpoint, dtype), dtype, torch.device(device), on_progress)

    def prefixed(self, *prefixes: str) -> "Weights":
        """The same tensors seen below a prefix, or below several, in which they have been published."""
        return self._view((source, at + prefix) for source, at in self._places for prefix in prefixes)

    def beside(self, checkpoint: Checkpoint) -> "Weights":
        """Those of another checkpoint, in the same dtype on the same device; they count as progress too."""
        source = _source(checkpoint, self.dtype)
        self._meter.widen(source.total_bytes)
        return self._view([(source, "")])

    def over(self, base: "Weights") -> "Weights":
        """What this view has, and for the rest what `base` has."""
        return self._view((*self._places, *base._places))

    def has(self, name: str) -> bool:
        return any(source.has(prefix + name) for source, prefix in self._places)

    def publishes(self, name: str) -> bool:
        """Whether a file holds it: what is made up has every name, but none of its own accord."""
        return self.has(name)

    def take(self, *names: str, shape: tuple[int, ...]) -> torch.Tensor:
        """The first of `names` that exists. CheckpointError if none does, or if its shape is another."""
        candidates = [(source, prefix + name) for source, prefix in self._places for name in names]
        found = next((place for place in candidates if place[0].has(place[1])), None)
        if found is None:
            _refuse_packed(candidates)
            raise CheckpointError(f"The checkpoint has no tensor {' or '.join(n for _, n in candidates)}")
        source, name = found
        tensor = source.read(name, shape)
        if not tensor.is_floating_point() or tensor.itemsize == 1:
            raise _quantised(name, str(tensor.dtype).removeprefix("torch."))
        if tuple(tensor.shape) != tuple(shape):
            raise CheckpointError(
                f"Tensor {name} has shape {list(tensor.shape)} where the configuration asks for {list(shape)}"
            )
        self._meter.add(tensor.nbytes)
        return tensor.to(device=self.device, dtype=self.dtype)

    def _view(self, places: Iterable[tuple[TensorSource, str]]) -> "Weights":
        view = copy(self)
        view._places = tuple(places)
        return view


class RandomTensors:
    """Tensors made up on the spot, the same in every run: for load tests, and where there is no checkpoint.

    Every name exists. Matrices are normal with the configuration's own deviation, one-dimensional weights
    (norms) are 1, biases 0.
    """

    total_bytes = 0

    def __init__(self, std: float, device: torch.device) -> None:
        self.std = std
        self._generator = torch.Generator(device)

    def has(self, name: str) -> bool:
        return True

    def read(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        device = self._generator.device
        if name.endswith("bias"):
            return torch.zeros(shape, device=device)
        if len(shape) == 1:
            return torch.ones(shape, device=device)
        self._generator.manual_seed(zlib.crc32(name.encode()))
        return torch.empty(shape, device=device).normal_(0.0, self.std, generator=self._generator)


class RandomWeights(Weights):
    """Weights that are made up, for `--load-format random`."""

    def __init__(self, std: float, dtype: torch.dtype, device: torch.device | str) -> None:
        super().__init__(RandomTensors(std, torch.device(device)), dtype, torch.device(device))

    def publishes(self, name: str) -> bool:
        return False


class SafetensorsFiles:
    """Shards on disk, mapped into memory: a tensor is read when it is taken, and only then."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.total_bytes = 0
        self._shard_of: dict[str, Any] = {}
        for path in checkpoint.weight_files:
            shard = open_shard(path)
            self.total_bytes += path.stat().st_size
            self._shard_of |= dict.fromkeys(shard.keys(), shard)

    def has(self, name: str) -> bool:
        return name in self._shard_of

    def read(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        return self._shard_of[name].get_tensor(name)


def open_shard(path: Path) -> Any:
    """A safetensors file, mapped. CheckpointError if it is none, or incomplete."""
    try:
        return safe_open(path, framework="pt")
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} can't be read: {error}") from error


class StateDict:
    """Tensors that are in memory already, or mapped into it by torch."""

    def __init__(self, tensors: dict[str, torch.Tensor]) -> None:
        self._tensors = tensors
        self.total_bytes = sum(tensor.nbytes for tensor in tensors.values())

    def has(self, name: str) -> bool:
        return name in self._tensors

    def read(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        return self._tensors[name]


class _Meter:
    def __init__(self, total_bytes: int, report: Progress | None) -> None:
        self._done, self._total, self._report = 0, total_bytes, report

    def widen(self, num_bytes: int) -> None:
        self._total += num_bytes

    def add(self, num_bytes: int) -> None:
        self._done += num_bytes
        if self._report is not None:
            self._report(min(self._done, self._total), self._total)


_PACKED = ("qweight", "weight_packed")
"""What quantised checkpoints have in the place of `weight`."""


def _refuse_packed(candidates: Iterable[tuple[TensorSource, str]]) -> None:
    for source, name in candidates:
        for packed in (name.removesuffix("weight") + ending for ending in _PACKED):
            if source.has(packed):
                raise _quantised(packed, "packed")


def _quantised(name: str, form: str) -> CheckpointError:
    """Without its settings nothing says what the numbers stand for."""
    return CheckpointError(
        f"The checkpoint is quantised (tensor {name} is {form}), but its config.json has no "
        "quantization_config at its top that says how; such checkpoints are not supported"
    )


def _source(checkpoint: Checkpoint, dtype: torch.dtype) -> TensorSource:
    if checkpoint.config.get("quantization_config"):
        from models.quantized import dequantized_state_dict

        return StateDict(dequantized_state_dict(checkpoint, dtype))
    files = checkpoint.weight_files
    if not files:
        raise CheckpointError(
            f"{checkpoint.path} has no weights: neither *.safetensors nor pytorch_model*.bin"
        )
    if files[0].suffix == ".safetensors":
        return SafetensorsFiles(checkpoint)
    tensors: dict[str, torch.Tensor] = {}
    for path in files:
        try:  # files of before torch 1.6 are no archives, and can't be mapped
            tensors |= torch.load(path, map_location="cpu", weights_only=True, mmap=is_zipfile(path))
        except (UnpicklingError, RuntimeError, EOFError) as error:
            raise CheckpointError(f"{path} can't be read: {error}") from error
    return StateDict(tensors)
