"""Quantised checkpoints, by way of transformers: it loads them, and gives the matrices back in full.

The one place where a model of transformers is built to serve. Knows nothing of what the tensors are for.
"""

import logging
from typing import TYPE_CHECKING

import torch

from models.checkpoint import Checkpoint, CheckpointError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

logger = logging.getLogger("intarsia")

_TOLD = (ImportError, OSError, RuntimeError, ValueError)
"""What transformers raises with a text for its user. Of others only who knows its code could make sense."""
_INSTEAD = "serve the checkpoint in full precision that it was made from"


def dequantized_state_dict(checkpoint: Checkpoint, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Every tensor by transformers' own name for it. CheckpointError for a method that can't be undone."""
    method = checkpoint.config["quantization_config"].get("quant_method")
    _check_known(checkpoint, method)
    try:
        tensors = _load(checkpoint, dtype).state_dict()
    except Exception as error:  # each method fails in its own way: no package, no GPU, no such layout
        logger.debug("undoing a quantisation", exc_info=True)
        reason = f": {error}" if isinstance(error, _TOLD) else f"; {_INSTEAD}"
        raise CheckpointError(
            f"{checkpoint.path} is quantised with {method!r}, and transformers can't undo that here{reason}"
        ) from error
    left = [
        name for name, tensor in tensors.items() if not tensor.is_floating_point() or tensor.itemsize == 1
    ]
    if left:
        raise CheckpointError(
            f"{checkpoint.path} is quantised with {method!r}, which transformers can't undo: "
            f"{left[0]} stays packed"
        )
    return tensors


def _check_known(checkpoint: Checkpoint, method: object) -> None:
    import transformers

    if not hasattr(transformers, checkpoint.architecture):
        raise CheckpointError(
            f"{checkpoint.path} is quantised with {method!r}. transformers, which undoes that, does not know "
            f"the architecture {checkpoint.architecture}; {_INSTEAD}"
        )


def _load(checkpoint: Checkpoint, dtype: torch.dtype) -> "PreTrainedModel":
    import transformers
    from transformers.quantizers.auto import AutoQuantizationConfig

    config = transformers.AutoConfig.from_pretrained(checkpoint.path)
    settings = dict(checkpoint.config["quantization_config"])
    while_loading = hasattr(AutoQuantizationConfig.from_dict(settings), "dequantize")
    config.quantization_config = settings | ({"dequantize": True} if while_loading else {})
    model_class = getattr(transformers, checkpoint.architecture)
    model = model_class.from_pretrained(checkpoint.path, config=config, dtype=dtype)
    if not while_loading:
        model.dequantize(dtype=dtype)
    return model
