"""The decoder that the dense families share.

Llama, Mistral, Qwen2, Qwen3, Gemma 3 and the language models of their multimodal relatives are one
computation that differs by a few flags. Knows nothing of media, and nothing of how keys and values are kept:
that is the PagedAttention it is given.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F

from models.activations import ACTIVATIONS
from models.decoder_config import DecoderConfig
from models.interface import AddedRows, FusedDecoder, PackedMatrix, PagedAttention
from models.rotary import apply_rotary
from models.weights import Weights

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
        self.config = config
        self.fused: FusedDecoder | None = None
        self.embedding, head = _take_tables(config, inner, weights.prefixed(*map(_beside, prefixes)))
        self.head: Matrix = head
        self.layers = [_take_layer(config, inner.prefixed(f"layers.{i}.")) for i in range(config.num_layers)]
        self.final_norm = _take_norm(config, inner, "norm", config.hidden_size)
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
        heads = config.num_heads, config.num_kv_heads
        qk, v = qkv[:, : sum(heads)], qkv[:, sum(heads) :]
        if layer.q_norm is not None and layer.k_norm is not None:
            q, k = qk.split(heads, dim=1)
            qk = torch.cat((rms_norm(q, layer.q_norm, config.eps), rms_norm(k, layer.k_norm, config.eps)), 1)
        q, k = apply_rotary(qk, cos, sin).split(heads, dim=1)
        return attention.attend(index, q, k, v).flatten(1)

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
    to that of x after it, as in the references; on a GPU only after it, in one kernel instead of eight, since
    there small steps are bound by launching them. x as it is without a weight."""
    if weight is None:
        return x
    if x.is_cuda:
        return F.rms_norm(x.to(weight.dtype), weight.shape, weight, eps).to(x.dtype)
    wide = x.float()
    normed = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (weight * normed.to(weight.dtype)).to(x.dtype)


def _take_tables(config: DecoderConfig, inner: Weights, beside: Weights) -> tuple[torch.Tensor, torch.Tensor]:
    """Embedding and output head, both [vocab_size, hidden_size], one tensor where they are tied.

    As in transformers the files have the last word on a tie: either name may be missing, and a head that
    differs from the embedding is one of its own, whatever the configuration (or its default) says.
    """
    embedding, head, shape = "embed_tokens.weight", "lm_head.weight", (config.vocab_size, config.hidden_size)
    if not config.tie:
        return inner.take(embedding, shape=shape), beside.take(head, shape=shape)
    if not beside.publishes(head):
        return (tied := inner.take(embedding, shape=shape)), tied
    own = beside.take(head, shape=shape)
    if not inner.publishes(embedding):
        return own, own
    tied = inner.take(embedding, shape=shape)
    return tied, tied if torch.equal(tied, own) else own


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


def _beside(prefix: str) -> str:
    """Where the head of the language model at `prefix` lies: `thinker.model.` -> `thinker.`."""
    return prefix.removesuffix("language_model.").removesuffix("model.")
