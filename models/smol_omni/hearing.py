"""whisper-tiny.en's encoder under the names of Qwen2.5-Omni's audio tower.

The tower attends within chunks; with Whisper's own 30 seconds as the chunk it is Whisper's encoder. What
stands behind it (layers of our own, the projection) comes from the adapters.
"""

from typing import Any

import numpy as np

WIDTH, HEADS, INNER, MELS = 384, 6, 1536, 80
WHISPER_LAYERS = 4
POSITIONS = 1500

_NORMS = {"self_attn_layer_norm": "self_attention", "final_layer_norm": "ffn"}
_MATRICES = {"fc1": "ffn/linear_0", "fc2": "ffn/linear_1", "self_attn.out_proj": "self_attention/linear_1"}


def audio_config(own_layers: int, out_width: int = 576) -> dict[str, Any]:
    """own_layers: how many follow Whisper's."""
    return {
        "d_model": WIDTH,
        "encoder_layers": WHISPER_LAYERS + own_layers,
        "encoder_attention_heads": HEADS,
        "encoder_ffn_dim": INNER,
        "num_mel_bins": MELS,
        "n_window": POSITIONS,
        "output_dim": out_width,
        "max_source_positions": POSITIONS,
    }


def encoder_tensors(variables: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """variables: as CTranslate2 names them. Returns the tower's tensors up to its final norm."""
    tensors = {}
    for name in ("conv1", "conv2"):
        for kind in ("weight", "bias"):
            tensors[f"{name}.{kind}"] = variables[f"encoder/{name}/{kind}"]
    for index in range(WHISPER_LAYERS):
        tensors |= _layer(variables, f"encoder/layer_{index}", f"layers.{index}")
    return tensors | _norm(variables, "encoder/layer_norm", "ln_post")


def _layer(variables: dict[str, np.ndarray], there: str, here: str) -> dict[str, np.ndarray]:
    tensors = {}
    for name, part in _NORMS.items():
        tensors |= _norm(variables, f"{there}/{part}/layer_norm", f"{here}.{name}")
    for name, part in _MATRICES.items():
        for kind in ("weight", "bias"):
            tensors[f"{here}.{name}.{kind}"] = variables[f"{there}/{part}/{kind}"]
    fused = f"{there}/self_attention/linear_0"
    for kind in ("weight", "bias"):
        for name, part in zip("qkv", np.split(variables[f"{fused}/{kind}"], 3), strict=True):
            if (name, kind) != ("k", "bias"):  # which Whisper lacks, and the fused one holds as zeros
                tensors[f"{here}.self_attn.{name}_proj.{kind}"] = part
    return tensors


def _norm(variables: dict[str, np.ndarray], there: str, here: str) -> dict[str, np.ndarray]:
    return {f"{here}.weight": variables[f"{there}/gamma"], f"{here}.bias": variables[f"{there}/beta"]}
