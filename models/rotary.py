"""Rotary positions, along one axis or several (M-RoPE).

Knows frequencies and which axis turns which of them; knows nothing of how a family assigns positions.
"""

from typing import Any

import torch

from models.checkpoint import CheckpointError


class Rotary:
    """cos and sin of every position, from a text model's transformers configuration.

    layer_type: of which layers, where the configuration has parameters for each kind of them. frequencies:
    float32 [head_dim / 2], what a position is multiplied with; axis_of: which axis's position, int64
    [head_dim / 2].

    Scaled frequencies come from transformers' own functions. `max_positions` is the longest sequence for
    which they hold: two kinds ("dynamic", "longrope") change them for all keys once a sequence grows past a
    length, which no cache of keys can follow, so such a checkpoint is served exactly, up to that length.
    """

    def __init__(self, text_config: Any, layer_type: str | None = None) -> None:
        parameters = _parameters(text_config, layer_type)
        head_dim = getattr(text_config, "head_dim", None) or (
            text_config.hidden_size // text_config.num_attention_heads
        )
        inv_freq, self.scaling = _frequencies(text_config, parameters, head_dim, layer_type)
        if len(inv_freq) * 2 != head_dim:
            raise CheckpointError("Rotary positions on a part of each head are not supported")
        self.max_positions = _longest_exact(text_config, parameters)
        sections = parameters.get("mrope_section")
        interleaved = bool(parameters.get("mrope_interleaved", False))
        self.frequencies = inv_freq.to(torch.float32)
        self.axis_of = _axis_of_frequency(sections, interleaved, len(inv_freq))

    def to(self, device: torch.device | str) -> "Rotary":
        self.frequencies, self.axis_of = self.frequencies.to(device), self.axis_of.to(device)
        return self

    def __call__(self, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """positions [axes, rows] (one axis stands for all) -> cos and sin, float32 [rows, head_dim]."""
        angles = positions.float()
        angles = angles.T if angles.shape[0] == 1 else angles[self.axis_of].T  # [rows, 1 or head_dim / 2]
        angles = angles * self.frequencies
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos() * self.scaling, angles.sin() * self.scaling


def apply_rotary(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Turn the pairs (i, i + head_dim / 2) of x [rows, heads, head_dim] by cos and sin [rows, head_dim]."""
    first, second = x.chunk(2, dim=-1)
    return x * cos.unsqueeze(1) + torch.cat((-second, first), dim=-1) * sin.unsqueeze(1)


def rotary_of_layers(text_config: Any) -> tuple[Rotary, ...]:
    """For each layer its rotary positions, the same object for all layers that share them."""
    text_config.standardize_rope_params()
    kinds = getattr(text_config, "layer_types", None) or ()
    if not set(kinds) & set(text_config.rope_parameters):
        return (Rotary(text_config),) * text_config.num_hidden_layers
    of_kind = {kind: Rotary(text_config, kind) for kind in dict.fromkeys(kinds)}
    return tuple(of_kind[kind] for kind in kinds)


def _parameters(text_config: Any, layer_type: str | None) -> dict[str, Any]:
    text_config.standardize_rope_params()
    parameters = text_config.rope_parameters
    if layer_type is not None:
        parameters = parameters.get(layer_type) or {}
    if "rope_type" not in parameters:
        raise CheckpointError(
            f"Rotary positions without parameters for {layer_type or 'all layers'} are not supported"
        )
    return parameters


def _frequencies(
    text_config: Any, parameters: dict[str, Any], head_dim: int, layer_type: str | None
) -> tuple[torch.Tensor, float]:
    kind = parameters["rope_type"]
    if kind in ("default", "mrope"):
        exponents = torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim
        return 1.0 / (parameters["rope_theta"] ** exponents), 1.0

    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    if kind not in ROPE_INIT_FUNCTIONS:
        raise CheckpointError(f"Rotary positions of the kind {kind!r} are not supported")
    by_layer = {} if layer_type is None else {"layer_type": layer_type}
    return ROPE_INIT_FUNCTIONS[kind](text_config, device=torch.device("cpu"), **by_layer)


def _longest_exact(text_config: Any, parameters: dict[str, Any]) -> int:
    longest = text_config.max_position_embeddings
    kind, trained = parameters["rope_type"], parameters.get("original_max_position_embeddings")
    if kind == "longrope":
        longest = min(longest, trained or longest)
    if kind == "yarn" and trained:  # model cards add it to a configuration whose length stays what it was
        longest = max(longest, int((parameters.get("factor") or 1) * trained))
    return longest


def _axis_of_frequency(sections: list[int] | None, interleaved: bool, num_frequencies: int) -> torch.Tensor:
    """Which axis's position turns each frequency, int64 [num_frequencies].

    Sectioned: the first `sections[0]` frequencies follow axis 0, the next `sections[1]` axis 1, and so on.
    Interleaved: axis a > 0 takes every third frequency from number a on, `sections[a]` of them; 0 the rest.
    """
    axis_of = torch.zeros(num_frequencies, dtype=torch.int64)
    if not sections:
        return axis_of
    if interleaved:
        for axis in range(1, len(sections)):
            axis_of[axis : sections[axis] * 3 : 3] = axis
        return axis_of
    if sum(sections) != num_frequencies:
        raise CheckpointError(f"mrope_section {sections} does not add up to {num_frequencies} frequencies")
    return torch.cat([torch.full((size,), axis) for axis, size in enumerate(sections)])
