"""Sizes and flags of the decoder that the dense families share, out of their configurations."""

from dataclasses import dataclass, field
from typing import Any

from models.activations import ACTIVATIONS
from models.checkpoint import CheckpointError
from models.interface import AttentionSpec
from models.rotary import Rotary, rotary_of_layers

_QKV_BIAS = {"qwen2", "qwen2_vl_text", "qwen2_5_vl_text", "qwen2_5_omni_text"}
_QK_NORM = {"qwen3", "qwen3_vl_text", "gemma3_text"}
_PLAIN = {"llama", "mistral"}
_GEMMA = {"gemma3_text"}
"""Norms on both sides of attention and MLP, their weights kept as what is added to 1; scaled embeddings."""


@dataclass(frozen=True)
class DecoderConfig:
    """Sizes and flags of one decoder.

    windows: for each layer, how many keys a row sees, None for all. scale: what scores are multiplied with.
    embedding_scale: likewise the embedding's rows. norms_after: of what attention and MLP give, before it is
    added. norms_from_one: the weights of norms are kept less 1. rotary: for each layer.
    """

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    scale: float
    windows: tuple[int | None, ...]
    eps: float
    embedding_scale: float
    tie: bool
    qkv_bias: bool
    o_bias: bool
    mlp_bias: bool
    qk_norm: bool
    norms_after: bool
    norms_from_one: bool
    activation: str
    max_positions: int
    rotary: tuple[Rotary, ...] = field(compare=False, repr=False)

    @property
    def num_layers(self) -> int:
        return len(self.windows)

    @property
    def attention(self) -> AttentionSpec:
        return AttentionSpec(self.num_heads, self.num_kv_heads, self.head_dim, self.scale, self.windows)

    @classmethod
    def from_text_config(cls, text: Any, tie: bool | None = None) -> "DecoderConfig":
        """text: a text model's transformers configuration. tie: overrides its own word on tied embeddings."""
        kind = text.model_type
        _require_supported(text)
        activation = _activation(text)
        attention_bias = bool(getattr(text, "attention_bias", False))
        head_dim = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
        rotary = rotary_of_layers(text)
        return cls(
            vocab_size=text.vocab_size,
            hidden_size=text.hidden_size,
            intermediate_size=text.intermediate_size,
            num_heads=text.num_attention_heads,
            num_kv_heads=text.num_key_value_heads,
            head_dim=head_dim,
            scale=(getattr(text, "query_pre_attn_scalar", None) or head_dim) ** -0.5,
            windows=_windows(text),
            eps=text.rms_norm_eps,
            embedding_scale=text.hidden_size**0.5 if kind in _GEMMA else 1.0,
            tie=bool(text.tie_word_embeddings) if tie is None else tie,
            qkv_bias=kind in _QKV_BIAS or (kind != "mistral" and attention_bias),
            o_bias=kind in ("llama", *_QK_NORM) and attention_bias,
            mlp_bias=kind == "llama" and bool(text.mlp_bias),
            qk_norm=kind in _QK_NORM,
            norms_after=kind in _GEMMA,
            norms_from_one=kind in _GEMMA,
            activation=activation,
            max_positions=min(layer.max_positions for layer in rotary),
            rotary=rotary,
        )


def _require_supported(text: Any) -> None:
    if text.model_type not in _QKV_BIAS | _QK_NORM | _PLAIN:
        raise CheckpointError(f"A language model of the type {text.model_type!r} is not supported")
    for name in ("attn_logit_softcapping", "final_logit_softcapping", "use_bidirectional_attention"):
        if getattr(text, name, None):
            raise CheckpointError(f"A language model with {name} is not supported")


def _activation(text: Any) -> str:
    name = getattr(text, "hidden_activation", None) or text.hidden_act
    if name not in ACTIVATIONS:
        raise CheckpointError(f"The activation {name!r} is not supported")
    return name


def _windows(text: Any) -> tuple[int | None, ...]:
    window = getattr(text, "sliding_window", None)
    if text.model_type == "mistral":
        return (window,) * text.num_hidden_layers
    kinds = getattr(text, "layer_types", None) or ["full_attention"] * text.num_hidden_layers
    if set(kinds) - {"full_attention", "sliding_attention"}:
        raise CheckpointError(f"Layers of the kinds {sorted(set(kinds))} are not supported")
    return tuple(window if kind == "sliding_attention" else None for kind in kinds)
