"""The decoder that the dense families share.

Llama, Mistral, Qwen2, Qwen3, Gemma 3 and the language models of their multimodal relatives are one
computation that differs by a few flags. Knows nothing of media, and nothing of how keys and values are kept:
that is the PagedAttention it is given.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

from models.activations import ACTIVATIONS
from models.checkpoint import CheckpointError
from models.interface import AddedRows, AttentionSpec, FusedDecoder, PackedMatrix, PagedAttention
from models.rotary import Rotary, apply_rotary, rotary_of_layers
from models.weights import Weights

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


Matrix = torch.Tensor | PackedMatrix
"""[out, in], until the engine packs it."""


class LayerWeights(NamedTuple):
    """One layer, matrices [out, in]; query, key and value rows fused in this order, gate and up too.

    Norms whose weights are applied before rounding are float32, whatever the dtype of the model.
    """

    input_norm: torch.Tensor
    qkv: Matrix
    qkv_bias: torch.Tensor | None
    q_norm: torch.Tensor | None
    k_norm: torch.Tensor | None
    o: Matrix
    o_bias: torch.Tensor | None
    post_norm: torch.Tensor
    gate_up: Matrix
    gate_up_bias: torch.Tensor | None
    down: Matrix
    down_bias: torch.Tensor | None
    norm_after_attention: torch.Tensor | None = None
    norm_after_mlp: torch.Tensor | None = None


class Decoder:
    """Embedding, layers, final norm and output head.

    prefix: where the layers lie, in one or several published spellings (`"model."`); the head lies beside it.
    `fused`: what the engine installed to run all layers at once, asked first at every step.
    """

    def __init__(
        self, config: DecoderConfig, weights: Weights, prefix: str | tuple[str, ...] = "model."
    ) -> None:
        prefixes = (prefix,) if isinstance(prefix, str) else prefix
        inner = weights.prefixed(*prefixes)
        table = (config.vocab_size, config.hidden_size)
        self.config = config
        self.fused: FusedDecoder | None = None
        self.embedding = inner.take("embed_tokens.weight", shape=table)
        self.layers = [_take_layer(config, inner.prefixed(f"layers.{i}.")) for i in range(config.num_layers)]
        self.final_norm = _take_norm(config, inner, "norm", config.hidden_size)
        self.head: Matrix = (
            self.embedding
            if config.tie
            else weights.prefixed(*map(_beside, prefixes)).take("lm_head.weight", shape=table)
        )
        self.rotary = tuple(rotary.to(weights.device) for rotary in config.rotary)
        self._activation = ACTIVATIONS[config.activation]
        self._embedding_scale = float(torch.tensor(config.embedding_scale, dtype=weights.dtype))

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        """int64 [rows] -> [rows, hidden_size]."""
        hidden = F.embedding(ids, self.embedding)
        return hidden if self._embedding_scale == 1.0 else hidden.mul_(self._embedding_scale)

    def __call__(
        self,
        hidden: torch.Tensor,
        positions: torch.Tensor,
        attention: PagedAttention,
        added: Sequence[AddedRows] = (),
        read: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """hidden [rows, hidden_size], positions int64 [axes, rows] -> hidden after the final norm.

        read: int64 [n], ascending, the rows to return: [n, hidden_size]; None for all. In the last layer the
        others only get their keys and values.
        """
        last = len(self.layers) - 1
        if read is not None and any(rows.layer == last for rows in added):
            return self(hidden, positions, attention, added)[read]
        if self.fused is not None and self.fused.accepts(attention):
            return self.fused.run(hidden, positions, attention, added, read)
        turns = {rotary: [part.to(hidden.dtype) for part in rotary(positions)] for rotary in set(self.rotary)}
        for index, layer in enumerate(self.layers):
            cos, sin = turns[self.rotary[index]]
            attended = self._attention(index, layer, hidden, cos, sin, attention)
            if index == last and read is not None:
                hidden, attended = hidden[read], attended[read]
            hidden = hidden + self._projected(layer, attended)
            hidden = hidden + self._mlp(layer, hidden)
            for rows in added:
                if rows.layer == index:
                    hidden[rows.start : rows.start + len(rows.values)] += rows.values
        return rms_norm(hidden, self.final_norm, self.config.eps)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """[n, hidden_size] -> float32 [n, vocab_size]."""
        if self.fused is not None:
            return self.fused.logits(hidden)
        return _linear(hidden, self.head).float()

    def _attention(
        self,
        index: int,
        layer: LayerWeights,
        hidden: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        attention: PagedAttention,
    ) -> torch.Tensor:
        config = self.config
        x = rms_norm(hidden, layer.input_norm, config.eps)
        qkv = _linear(x, layer.qkv, layer.qkv_bias).unflatten(-1, (-1, config.head_dim))
        q, k, v = qkv.split((config.num_heads, config.num_kv_heads, config.num_kv_heads), dim=1)
        if layer.q_norm is not None and layer.k_norm is not None:
            q, k = rms_norm(q, layer.q_norm, config.eps), rms_norm(k, layer.k_norm, config.eps)
        return attention.attend(index, apply_rotary(q, cos, sin), apply_rotary(k, cos, sin), v).flatten(1)

    def _projected(self, layer: LayerWeights, attended: torch.Tensor) -> torch.Tensor:
        out = _linear(attended, layer.o, layer.o_bias)
        return rms_norm(out, layer.norm_after_attention, self.config.eps)

    def _mlp(self, layer: LayerWeights, hidden: torch.Tensor) -> torch.Tensor:
        x = rms_norm(hidden, layer.post_norm, self.config.eps)
        gate, up = _linear(x, layer.gate_up, layer.gate_up_bias).chunk(2, dim=-1)
        out = _linear(self._activation(gate) * up, layer.down, layer.down_bias)
        return rms_norm(out, layer.norm_after_mlp, self.config.eps)


def _linear(x: torch.Tensor, weight: Matrix, bias: torch.Tensor | None = None) -> torch.Tensor:
    return F.linear(x, weight, bias) if isinstance(weight, torch.Tensor) else weight(x, bias)


def rms_norm(x: torch.Tensor, weight: torch.Tensor | None, eps: float) -> torch.Tensor:
    """Root-mean-square norm of the last axis, in float32, rounded to the weight's dtype before the weight and
    to that of x after it, as in the references. x as it is without a weight."""
    if weight is None:
        return x
    wide = x.float()
    normed = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (weight * normed.to(weight.dtype)).to(x.dtype)


def _take_layer(config: DecoderConfig, weights: Weights) -> LayerWeights:
    hidden, inner, dim = config.hidden_size, config.intermediate_size, config.head_dim
    q, kv = config.num_heads * dim, config.num_kv_heads * dim
    rows = {"q_proj": q, "k_proj": kv, "v_proj": kv}
    attention, mlp = weights.prefixed("self_attn."), weights.prefixed("mlp.")
    before_mlp = "pre_feedforward_layernorm" if config.norms_after else "post_attention_layernorm"

    def bias(view: Weights, name: str, size: int, wanted: bool) -> torch.Tensor | None:
        return view.take(f"{name}.bias", shape=(size,)) if wanted else None

    return LayerWeights(
        input_norm=_take_norm(config, weights, "input_layernorm", hidden),
        qkv=torch.cat([attention.take(f"{name}.weight", shape=(n, hidden)) for name, n in rows.items()]),
        qkv_bias=torch.cat([attention.take(f"{name}.bias", shape=(n,)) for name, n in rows.items()])
        if config.qkv_bias
        else None,
        q_norm=_take_norm(config, attention, "q_norm", dim) if config.qk_norm else None,
        k_norm=_take_norm(config, attention, "k_norm", dim) if config.qk_norm else None,
        o=attention.take("o_proj.weight", shape=(hidden, q)),
        o_bias=bias(attention, "o_proj", hidden, config.o_bias),
        post_norm=_take_norm(config, weights, before_mlp, hidden),
        gate_up=torch.cat([mlp.take(f"{n}_proj.weight", shape=(inner, hidden)) for n in ("gate", "up")]),
        gate_up_bias=torch.cat([mlp.take(f"{n}_proj.bias", shape=(inner,)) for n in ("gate", "up")])
        if config.mlp_bias
        else None,
        down=mlp.take("down_proj.weight", shape=(hidden, inner)),
        down_bias=bias(mlp, "down_proj", hidden, config.mlp_bias),
        norm_after_attention=_take_norm(config, weights, "post_attention_layernorm", hidden)
        if config.norms_after
        else None,
        norm_after_mlp=_take_norm(config, weights, "post_feedforward_layernorm", hidden)
        if config.norms_after
        else None,
    )


def _take_norm(config: DecoderConfig, weights: Weights, name: str, size: int) -> torch.Tensor:
    weight = weights.take(f"{name}.weight", shape=(size,))
    return weight.float() + 1.0 if config.norms_from_one else weight


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


def _beside(prefix: str) -> str:
    """Where the head of the language model at `prefix` lies: `thinker.model.` -> `thinker.`."""
    return prefix.removesuffix("language_model.").removesuffix("model.")
