"""From a checkpoint to a served model: its configuration, the dtype to run in, weights, family.

Knows the order of these things and nothing of any family.
"""

from typing import Any, Literal

import torch

from models.checkpoint import Checkpoint, CheckpointError
from models.configs import read_config
from models.interface import ServedModel
from models.registry import family, import_class, load_processing
from models.switches import set_switches
from models.weights import Progress, RandomWeights, Weights, open_shard

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def load_model(
    checkpoint: Checkpoint,
    *,
    dtype: str = "auto",
    device: str = "cpu",
    load_format: Literal["auto", "random"] = "auto",
    on_progress: Progress | None = None,
) -> ServedModel:
    """dtype: a name in DTYPES, or "auto" for the checkpoint's own.

    load_format: "random" makes weights up. Raises CheckpointError for whatever can't be served.
    """
    set_switches()
    model_class = import_class(family(checkpoint).model)
    target = torch.device(device)
    resolved = resolve_dtype(checkpoint, dtype, target)
    weights = (
        RandomWeights(_initializer_range(checkpoint.config), resolved, target)
        if load_format == "random"
        else Weights.open(checkpoint, resolved, target, on_progress)
    )
    config = read_config(checkpoint)
    try:
        return model_class.load(checkpoint, config, weights, load_processing(checkpoint))
    except (ArithmeticError, AttributeError, LookupError, TypeError) as error:  # sizes of no possible model
        raise CheckpointError(
            f"{checkpoint.path / 'config.json'} describes no model that can be built: "
            f"{type(error).__name__}: {error}"
        ) from error


def resolve_dtype(checkpoint: Checkpoint, name: str, device: torch.device) -> torch.dtype:
    """The dtype to run in. "auto" is the checkpoint's own, but not float16 on a CPU, where it is slow."""
    if name != "auto":
        if name not in DTYPES:
            raise ValueError(f"dtype {name!r} is none of auto, {', '.join(DTYPES)}")
        return DTYPES[name]
    stored = DTYPES.get(_published_dtype(checkpoint.config) or "") or _stored_dtype(checkpoint)
    return torch.float32 if device.type == "cpu" and stored is torch.float16 else stored


def _published_dtype(config: dict[str, Any]) -> str | None:
    for key in ("dtype", "torch_dtype"):
        if isinstance(config.get(key), str):
            return config[key].removeprefix("torch.")
    for key in ("thinker_config", "text_config"):
        if isinstance(config.get(key), dict) and (found := _published_dtype(config[key])):
            return found
    return None


def _stored_dtype(checkpoint: Checkpoint) -> torch.dtype:
    for path in checkpoint.weight_files:
        if path.suffix == ".safetensors":
            shard = open_shard(path)
            for name in shard.keys():  # noqa: SIM118 (no mapping)
                dtype = shard.get_tensor(name).dtype
                if dtype in DTYPES.values():
                    return dtype
    return torch.float32


def _initializer_range(config: dict[str, Any]) -> float:
    for scope in (config, *(config.get(key) or {} for key in ("thinker_config", "text_config"))):
        if isinstance(scope.get("initializer_range"), float):
            return scope["initializer_range"]
    return 0.02
