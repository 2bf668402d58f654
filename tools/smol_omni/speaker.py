"""The frozen language model, and the prompt that a sound stands in."""

import json

import torch
from safetensors import safe_open
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

from tools.smol_omni import CHECKPOINT

BEFORE = (
    "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    "<|im_start|>user\n"
)
AFTER = "<|im_end|>\n<|im_start|>assistant\n"
END = 2
SIZES = (
    "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
    "vocab_size", "rms_norm_eps", "max_position_embeddings",
)  # fmt: skip


def read_speaker(num_layers: int | None = None) -> LlamaForCausalLM:
    """num_layers: only so many of the first ones, without the final norm."""
    text = json.loads((CHECKPOINT / "config.json").read_text())["thinker_config"]["text_config"]
    config = LlamaConfig(**{name: text[name] for name in SIZES}, tie_word_embeddings=True)
    config.rope_parameters = {"rope_type": "default", "rope_theta": text["rope_parameters"]["rope_theta"]}
    speaker = LlamaForCausalLM(config)
    with safe_open(CHECKPOINT / "model.safetensors", "pt") as file:
        names = [name for name in file.keys() if name.startswith("thinker.model.")]  # noqa: SIM118
        tensors = {name.removeprefix("thinker."): file.get_tensor(name).float() for name in names}
    missing = speaker.load_state_dict(tensors, strict=False).missing_keys
    assert missing == ["lm_head.weight"], missing
    if num_layers is not None:
        del speaker.model.layers[num_layers:]
        speaker.config.num_hidden_layers = num_layers
        speaker.model.norm = nn.Identity()
    return speaker.eval().requires_grad_(False)


def states(speaker: LlamaForCausalLM, embeddings: list[Tensor]) -> Tensor:
    """(prompts, tokens, width), padded at the end, of what the prompts' tokens are embedded as."""
    longest = max(len(one) for one in embeddings)
    padded = torch.stack([nn.functional.pad(one, (0, 0, 0, longest - len(one))) for one in embeddings])
    with torch.autocast("cpu", torch.bfloat16):
        return speaker.model(inputs_embeds=padded).last_hidden_state
