"""The audio tower, on padded chunks of two seconds; tensors are named as in published Qwen2.5-Omni
checkpoints.
"""

import torch
from torch import Tensor, nn

from tools.demo_model.layers import attend, join_heads, split_heads
from tools.demo_model.sizes import AUDIO, CHUNK_FRAMES, LANGUAGE


def sinusoids(length: int, size: int) -> Tensor:
    """Whisper's fixed positions, (length, size)."""
    steps = torch.exp(-torch.arange(size // 2) * (torch.log(torch.tensor(10_000.0)) / (size // 2 - 1)))
    angles = torch.arange(length)[:, None] * steps
    return torch.cat((angles.sin(), angles.cos()), 1)


class AudioAttention(nn.Module):
    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.k_proj = nn.Linear(size, size, bias=False)
        self.v_proj, self.q_proj, self.out_proj = (nn.Linear(size, size) for _ in range(3))

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        q, k, v = (split_heads(f(x), self.heads) for f in (self.q_proj, self.k_proj, self.v_proj))
        return self.out_proj(join_heads(attend(q, k, v, bias)))


class AudioLayer(nn.Module):
    def __init__(self, size: int, heads: int, inner: int) -> None:
        super().__init__()
        self.self_attn = AudioAttention(size, heads)
        self.self_attn_layer_norm = nn.LayerNorm(size)
        self.fc1, self.fc2 = nn.Linear(size, inner), nn.Linear(inner, size)
        self.final_layer_norm = nn.LayerNorm(size)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        x = x + self.self_attn(self.self_attn_layer_norm(x), bias)
        return x + self.fc2(nn.functional.gelu(self.fc1(self.final_layer_norm(x))))


class AudioTower(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        size = AUDIO["hidden"]
        self.positions: Tensor
        self.conv1 = nn.Conv1d(AUDIO["mels"], size, 3, padding=1)
        self.conv2 = nn.Conv1d(size, size, 3, stride=2, padding=1)
        self.register_buffer("positions", sinusoids(CHUNK_FRAMES // 2, size), persistent=False)
        self.layers = nn.ModuleList(
            AudioLayer(size, AUDIO["heads"], AUDIO["inner"]) for _ in range(AUDIO["depth"])
        )
        self.ln_post = nn.LayerNorm(size)
        self.proj = nn.Linear(size, LANGUAGE["hidden"])
        self.audio_bos_eos_token = nn.Embedding(2, LANGUAGE["hidden"])
        self.audio_bos_eos_token.requires_grad_(False)

    def forward(self, mel: Tensor, lengths: Tensor) -> Tensor:
        """mel: (chunks, mels, frames), zero beyond each chunk's length in frames; returns (chunks,
        frames / 4, size).
        """
        frames = torch.arange(mel.shape[2])
        x = nn.functional.gelu(self.conv1(mel)) * (frames < lengths[:, None])[:, None]
        x = nn.functional.gelu(self.conv2(x)).transpose(1, 2)
        x = x + self.positions.to(x.dtype)
        hidden = frames[: x.shape[1]] >= ((lengths - 1) // 2 + 1)[:, None]
        bias = torch.zeros(hidden.shape).masked_fill(hidden, -1e4)[:, None, None].to(x.dtype)
        for layer in self.layers:
            x = layer(x, bias)
        return self.proj(self.ln_post(x.unflatten(1, (-1, 2)).mean(2)))
