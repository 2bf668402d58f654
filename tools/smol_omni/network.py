"""What is trained: layers behind Whisper's, the final norm, the projection; and what its output is told by.

An output stands for the token whose row of the embedding it is nearest to. The row of a space stands for
nothing: the language model reads over spaces between words, however many there are.
"""

from typing import NamedTuple

import torch
from safetensors import safe_open
from tokenizers import Tokenizer
from torch import Tensor, nn

from models.smol_omni.hearing import HEADS, INNER, WIDTH
from tools.demo_model.hearing import AudioLayer
from tools.smol_omni import CHECKPOINT
from tools.smol_omni.tower import OWN_LAYERS, whisper_tower

NOTHING = " "
HIDDEN = -1e4


class Language(NamedTuple):
    """The tokenizer and (tokens, width) embedding of the language model, both fixed."""

    tokens: Tokenizer
    rows: Tensor

    @property
    def nothing(self) -> int:
        return self.tokens.encode(NOTHING).ids[0]


def read_language() -> Language:
    with safe_open(CHECKPOINT / "model.safetensors", "pt") as file:
        rows = file.get_tensor("thinker.model.embed_tokens.weight").float()
    return Language(Tokenizer.from_file(str(CHECKPOINT / "tokenizer.json")), rows)


class Listener(nn.Module):
    """Tensors are named as in the audio tower, but for the layers' numbers."""

    def __init__(self, language: Language) -> None:
        super().__init__()
        self.layers = nn.ModuleList(AudioLayer(WIDTH, HEADS, INNER) for _ in range(OWN_LAYERS))
        self.ln_post = nn.LayerNorm(WIDTH)
        self.proj = nn.Linear(WIDTH, language.rows.shape[1])
        self.ln_post.load_state_dict(whisper_tower().tower.ln_post.state_dict())
        for layer in self.layers:
            for last in (layer.self_attn.out_proj, layer.fc2):
                nn.init.zeros_(last.weight)
                nn.init.zeros_(last.bias)
        nn.init.normal_(self.proj.weight, std=0.01)
        self.proj.bias.data = language.rows[language.nothing].clone()

    def forward(self, heard: Tensor, lengths: Tensor) -> Tensor:
        """heard: (sounds, positions, width), padded; returns (sounds, positions / 2, out)."""
        beyond = torch.arange(heard.shape[1]) >= lengths[:, None]
        bias = torch.zeros(beyond.shape).masked_fill(beyond, HIDDEN)[:, None, None].to(heard.dtype)
        for layer in self.layers:
            heard = layer(heard, bias)
        pairs = heard[:, : heard.shape[1] // 2 * 2].unflatten(1, (-1, 2)).mean(2)
        return self.proj(self.ln_post(pairs))


def nearness(outputs: Tensor, rows: Tensor) -> Tensor:
    """(..., width) and (tokens, width) to (..., tokens): logits of which token is meant."""
    return 2 * outputs @ rows.T - rows.pow(2).sum(1)
