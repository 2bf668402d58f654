"""The audio tower: Whisper's encoder as it is, then layers of our own, whose sizes are the encoder's."""

from functools import lru_cache

import torch
from torch import Tensor, nn
from transformers import Qwen2_5OmniAudioEncoderConfig
from transformers.models.qwen2_5_omni.modeling_qwen2_5_omni import Qwen2_5OmniAudioEncoder

from models.smol_omni.ctranslate import read_variables
from models.smol_omni.hearing import audio_config, encoder_tensors
from models.smol_omni.packages import HEARING, fetch, member
from tools.smol_omni import CACHE

OWN_LAYERS = 2


class Frozen(nn.Module):
    """Convolutions and Whisper's own layers: one sound at a time."""

    def __init__(self) -> None:
        super().__init__()
        config = Qwen2_5OmniAudioEncoderConfig(**audio_config(own_layers=0), attn_implementation="sdpa")
        self.tower = Qwen2_5OmniAudioEncoder(config)
        tensors = encoder_tensors(read_variables(member(HEARING, fetch(HEARING, CACHE))))
        self.tower.load_state_dict({k: torch.tensor(v) for k, v in tensors.items()}, strict=False)
        self.tower.requires_grad_(False)

    def forward(self, mel: Tensor) -> Tensor:
        """(mels, frames) -> (positions, width), before the final norm."""
        x = nn.functional.gelu(self.tower.conv1(mel[None]))
        x = nn.functional.gelu(self.tower.conv2(x)).transpose(1, 2)[0]
        x = x + self.tower.positional_embedding(len(x))
        ends = torch.tensor([0, len(x)], dtype=torch.int32)
        for layer in self.tower.layers:
            x = layer(x, cu_seqlens=ends, max_seqlen=len(x))[0]
        return x


@lru_cache
def whisper_tower() -> Frozen:
    return Frozen().eval()
