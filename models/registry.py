"""Which classes serve which architecture: one explicit table, imported by name when needed.

`load_processing` is all that the server's process needs, and it imports no torch.
"""

from importlib import import_module
from typing import Any, NamedTuple

from models.checkpoint import Checkpoint, CheckpointError
from models.processing.base import Processing


class Family(NamedTuple):
    """Both halves of a family, as "module:Class". Each has a class method: `from_checkpoint`, `load`."""

    processing: str
    model: str


_TEXT = Family("models.processing.text:TextProcessing", "models.families.text:TextModel")
_QWEN2_VL = Family("models.processing.qwen2_vl:Qwen2VLProcessing", "models.families.qwen2_vl:Qwen2VLModel")
_QWEN2_5_OMNI = Family(
    "models.processing.qwen2_5_omni:Qwen2_5OmniProcessing", "models.families.qwen2_5_omni:Qwen2_5OmniModel"
)

FAMILIES = {
    "LlamaForCausalLM": _TEXT,
    "MistralForCausalLM": _TEXT,
    "Qwen2ForCausalLM": _TEXT,
    "Qwen3ForCausalLM": _TEXT,
    "Gemma3ForCausalLM": _TEXT,
    "UltravoxModel": Family(
        "models.processing.ultravox:UltravoxProcessing", "models.families.ultravox:UltravoxModel"
    ),
    "Qwen2AudioForConditionalGeneration": Family(
        "models.processing.qwen2_audio:Qwen2AudioProcessing", "models.families.qwen2_audio:Qwen2AudioModel"
    ),
    "LlavaForConditionalGeneration": Family(
        "models.processing.llava:LlavaProcessing", "models.families.llava:LlavaModel"
    ),
    "Gemma3ForConditionalGeneration": Family(
        "models.processing.gemma3:Gemma3Processing", "models.families.gemma3:Gemma3Model"
    ),
    "Qwen2VLForConditionalGeneration": _QWEN2_VL,
    "Qwen2_5_VLForConditionalGeneration": _QWEN2_VL,
    "Qwen3VLForConditionalGeneration": Family(
        "models.processing.qwen2_vl:Qwen2VLProcessing", "models.families.qwen3_vl:Qwen3VLModel"
    ),
    "Qwen2_5OmniForConditionalGeneration": _QWEN2_5_OMNI,
    "Qwen2_5OmniModel": _QWEN2_5_OMNI,
    "Qwen2_5OmniThinkerForConditionalGeneration": _QWEN2_5_OMNI,
}


def family(checkpoint: Checkpoint) -> Family:
    """Raises CheckpointError for an architecture that isn't in the table."""
    found = FAMILIES.get(checkpoint.architecture)
    if found is None:
        supported = ", ".join(sorted(FAMILIES))
        raise CheckpointError(
            f"{checkpoint.path} has the architecture {checkpoint.architecture}, which is not supported; "
            f"supported are {supported}"
        )
    return found


def load_processing(checkpoint: Checkpoint) -> Processing:
    """The half of the checkpoint's family that needs no weights."""
    return import_class(family(checkpoint).processing).from_checkpoint(checkpoint)


def import_class(path: str) -> Any:
    """The class at "module:Class"."""
    module, name = path.split(":")
    return getattr(import_module(module), name)
