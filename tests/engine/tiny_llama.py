"""A small decoder with random weights, as this program runs it and as transformers does."""

from typing import NamedTuple

import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from models.decoder import Decoder
from models.decoder_config import DecoderConfig
from models.interface import EncoderInput, ForwardBatch, PagedAttention
from models.weights import StateDict, Weights

_KINDS = {
    "llama": (LlamaConfig, LlamaForCausalLM),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
}


class TextModel:
    """The least that a ServedModel with a decoder is."""

    architecture = "Tiny"
    processing = None

    def __init__(self, decoder: Decoder, dtype: torch.dtype) -> None:
        self.decoder, self.dtype, self.device = decoder, dtype, torch.device("cpu")
        self.attention = decoder.config.attention
        self.vocab_size, self.max_positions = decoder.config.vocab_size, decoder.config.max_positions
        self.encoding_width = decoder.config.hidden_size

    def encode(self, kind: str, items: list[EncoderInput]) -> list[torch.Tensor]:
        raise ValueError("text only")

    def forward(self, batch: ForwardBatch, attention: PagedAttention) -> torch.Tensor:
        return self.decoder(self.decoder.embed(batch.ids), batch.positions, attention, read=batch.read)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.decoder.logits(hidden)


class Pair(NamedTuple):
    model: TextModel
    reference: torch.nn.Module


def tiny_pair(kind: str = "llama", dtype: torch.dtype = torch.float32, **changes) -> Pair:
    sizes = {
        "vocab_size": 128,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "max_position_embeddings": 512,
        "initializer_range": 0.15,
        "tie_word_embeddings": False,
        "attn_implementation": "eager",
    }
    config_class, model_class = _KINDS[kind]
    config = config_class(**{**sizes, **changes})
    torch.manual_seed(0)
    reference = model_class(config).eval()
    with torch.no_grad():
        for name, weight in reference.named_parameters():
            if name.endswith("bias") or "norm" in name:
                weight.add_(0.2 * torch.randn_like(weight))
    tensors = {name: tensor.detach().clone() for name, tensor in reference.state_dict().items()}
    weights = Weights(StateDict(tensors), dtype, torch.device("cpu"))
    return Pair(TextModel(Decoder(DecoderConfig.from_text_config(config), weights), dtype), reference)
