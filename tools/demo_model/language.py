"""The language model, on rows with branches; tensors are named as in published Qwen2.5-Omni checkpoints."""

import torch
from torch import Tensor, nn

from tools.demo_model.hearing import AudioTower
from tools.demo_model.layers import GatedMLP, RMSNorm, attend, initialise, join_heads, rotate, split_heads
from tools.demo_model.sizes import LANGUAGE
from tools.demo_model.vision import VisionTower


def multimodal_rotary(positions: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines and sines, (rows, 1, tokens, head size), of positions (rows, 3, tokens): time, height,
    width.
    """
    head, sections = LANGUAGE["head"], LANGUAGE["sections"]
    inverse = LANGUAGE["theta"] ** -(torch.arange(0, head, 2) / head)
    axes = torch.cat([torch.full((n,), axis) for axis, n in enumerate(sections)])
    angles = (positions[:, axes].float() * inverse[:, None]).transpose(1, 2).repeat(1, 1, 2)[:, None]
    return angles.cos(), angles.sin()


def branch_bias(branches: Tensor) -> Tensor:
    """0 where a token may look: back, at the trunk (branch 0) and its own branch. branches: (rows,
    tokens).
    """
    own = branches[:, :, None] == branches[:, None, :]
    trunk = branches[:, None, :] == 0
    causal = torch.ones(branches.shape[1], branches.shape[1], dtype=torch.bool).tril()
    return torch.where((own | trunk) & causal, 0.0, -1e4)[:, None]


class SelfAttention(nn.Module):
    def __init__(self, size: int, heads: int, kv_heads: int, head: int) -> None:
        super().__init__()
        self.heads, self.kv_heads = heads, kv_heads
        self.q_proj = nn.Linear(size, heads * head)
        self.k_proj, self.v_proj = (nn.Linear(size, kv_heads * head) for _ in range(2))
        self.o_proj = nn.Linear(heads * head, size, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, bias: Tensor) -> Tensor:
        q = rotate(split_heads(self.q_proj(x), self.heads), cos, sin)
        k = rotate(split_heads(self.k_proj(x), self.kv_heads), cos, sin)
        v = split_heads(self.v_proj(x), self.kv_heads)
        k, v = (y.repeat_interleave(self.heads // self.kv_heads, 1) for y in (k, v))
        return self.o_proj(join_heads(attend(q, k, v, bias)))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        size = LANGUAGE["hidden"]
        self.input_layernorm, self.post_attention_layernorm = RMSNorm(size), RMSNorm(size)
        self.self_attn = SelfAttention(size, LANGUAGE["heads"], LANGUAGE["kv_heads"], LANGUAGE["head"])
        self.mlp = GatedMLP(size, LANGUAGE["inner"], bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, bias: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, bias)
        return x + self.mlp(self.post_attention_layernorm(x))


class TextModel(nn.Module):
    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(vocabulary, LANGUAGE["hidden"])
        self.layers = nn.ModuleList(Layer() for _ in range(LANGUAGE["depth"]))
        self.norm = RMSNorm(LANGUAGE["hidden"])

    def forward(self, x: Tensor, positions: Tensor, branches: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The last hidden states, and what each layer returned.

        x: (rows, tokens, size); positions: (rows, 3, tokens); branches: (rows, tokens).
        """
        cos, sin = multimodal_rotary(positions)
        bias, layers = branch_bias(branches), []
        for layer in self.layers:
            x = layer(x, cos, sin, bias)
            layers.append(x)
        return self.norm(x), layers


class Thinker(nn.Module):
    """The whole model: `visual`, `audio_tower`, `model` and `lm_head`, as the published thinker."""

    def __init__(self, vocabulary: int, visual: VisionTower, audio_tower: AudioTower) -> None:
        super().__init__()
        self.visual, self.audio_tower = visual, audio_tower
        self.model = TextModel(vocabulary)
        self.lm_head = nn.Linear(LANGUAGE["hidden"], vocabulary, bias=False)
        initialise(self.model, LANGUAGE["depth"])
        nn.init.normal_(self.model.embed_tokens.weight, std=0.5)
        nn.init.normal_(self.lm_head.weight, std=0.02)

    def hidden(
        self, ids: Tensor, source: Tensor, seen: Tensor, heard: Tensor, positions: Tensor, branches: Tensor
    ) -> tuple[Tensor, list[Tensor]]:
        """The last hidden states of rows of tokens, and those after each layer.

        seen, heard: the towers' outputs; source: for each token its row in the table of the rows' own text
        embeddings, then `seen`, then `heard`, each flattened.
        """
        text = self.model.embed_tokens(ids)
        table = torch.cat([text.flatten(0, 1), seen.flatten(0, 1).float(), heard.flatten(0, 1).float()])
        return self.model(table[source], positions, branches)
