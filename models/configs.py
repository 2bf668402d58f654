"""Configurations as transformers reads them: defaults filled in, old and new spellings alike."""

from typing import TYPE_CHECKING, Any

from models.checkpoint import Checkpoint, CheckpointError

if TYPE_CHECKING:
    from transformers import PreTrainedConfig


def read_config(checkpoint: Checkpoint) -> "PreTrainedConfig | None":
    """The checkpoint's config.json; None if it is of a type that transformers doesn't know."""
    from transformers import CONFIG_MAPPING, AutoConfig

    if checkpoint.config.get("model_type") not in CONFIG_MAPPING:
        return None
    try:
        return AutoConfig.from_pretrained(checkpoint.path)
    except Exception as error:  # strict configurations raise several kinds of errors for a wrong field
        raise CheckpointError(f"{checkpoint.path / 'config.json'} is not valid: {error}") from error


def build_config(raw: dict[str, Any], default_type: str) -> "PreTrainedConfig":
    """A configuration that lies within another. Raises CheckpointError where it isn't valid."""
    from transformers import CONFIG_MAPPING

    kind = raw.get("model_type", default_type)
    if kind not in CONFIG_MAPPING:
        raise CheckpointError(f"A model of the type {kind!r} is not supported")
    try:
        return CONFIG_MAPPING[kind](**{key: value for key, value in raw.items() if key != "model_type"})
    except Exception as error:  # as above
        raise CheckpointError(f"A configuration of the type {kind!r} is not valid: {error}") from error
