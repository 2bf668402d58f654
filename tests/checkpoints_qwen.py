"""Tiny checkpoints of the Qwen multimodal families, random weights, laid out and named as the published ones.

Every tensor is random, norms and biases too, so that none can be left out unnoticed.
"""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import (
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2_5OmniThinkerConfig,
    Qwen2_5OmniThinkerForConditionalGeneration,
    Qwen2VLConfig,
    Qwen2VLForConditionalGeneration,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
)

from tests.checkpoints import SIZES, padded, write_json, write_tokenizer

CHAT_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
VL_TOKENS = {
    "vision_start": "<|vision_start|>",
    "vision_end": "<|vision_end|>",
    "image": "<|image_pad|>",
    "video": "<|video_pad|>",
}
OMNI_TOKENS = {
    "audio": "<|AUDIO|>",
    "audio_start": "<|audio_bos|>",
    "audio_end": "<|audio_eos|>",
    "vision_start": "<|vision_bos|>",
    "vision_end": "<|vision_eos|>",
    "image": "<|IMAGE|>",
    "video": "<|VIDEO|>",
}

SECTIONS = [2, 3, 3]
ROPE_THETA = 100.0
"""Far below the published million: in so small a head, columns would else hardly turn anything."""
PLAIN_VISION = {"depth": 2, "embed_dim": 32, "num_heads": 2, "mlp_ratio": 2, "hidden_size": 64}
WINDOWED_VISION = {
    "depth": 3,
    "hidden_size": 32,
    "num_heads": 2,
    "intermediate_size": 48,
    "out_hidden_size": 64,
    "window_size": 56,
    "fullatt_block_indexes": [1],
}
DEEP_VISION = {
    "depth": 4,
    "hidden_size": 32,
    "num_heads": 2,
    "intermediate_size": 48,
    "out_hidden_size": 64,
    "num_position_embeddings": 25,
    "deepstack_visual_indexes": [0, 2],
}
AUDIO = {
    "num_mel_bins": 128,
    "encoder_layers": 2,
    "encoder_attention_heads": 2,
    "encoder_ffn_dim": 48,
    "d_model": 32,
    "output_dim": 64,
    "n_window": 100,
}
IMAGES = {
    "image_processor_type": "Qwen2VLImageProcessor",
    "min_pixels": 3136,
    "max_pixels": 12845056,
    "patch_size": 14,
    "temporal_patch_size": 2,
    "merge_size": 2,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
}
LARGER_PATCHES = {
    "image_processor_type": "Qwen2VLImageProcessorFast",
    "size": {"shortest_edge": 4096, "longest_edge": 16777216},
    "patch_size": 16,
    "temporal_patch_size": 2,
    "merge_size": 2,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
}
SOUNDS = {
    "feature_extractor_type": "WhisperFeatureExtractor",
    "feature_size": 128,
    "sampling_rate": 16000,
    "hop_length": 160,
    "n_fft": 400,
    "chunk_length": 300,
    "n_samples": 4800000,
    "nb_max_frames": 30000,
    "padding_side": "right",
    "padding_value": 0.0,
    "return_attention_mask": True,
    "dither": 0.0,
}

_TEMPLATE = """\
{%- set count = namespace(image=0) -%}
{% for message in messages %}{% if loop.first and message['role'] != 'system' %}<|im_start|>system
You are a helpful assistant.<|im_end|>
{% endif %}<|im_start|>{{ message['role'] }}
{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}\
{% if part['type'] == 'image' or 'image' in part or 'image_url' in part %}\
{% set count.image = count.image + 1 %}{% if add_vision_id %}Picture {{ count.image }}: {% endif %}IMAGE_TEXT\
AUDIO_CASE{% elif 'text' in part %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
_AUDIO_CASE = (
    "{% elif part['type'] == 'audio' or 'audio' in part or 'audio_url' in part %}"
    "<|audio_bos|><|AUDIO|><|audio_eos|>"
)


def tiny_qwen2_vl(directory: Path) -> Path:
    """Qwen2-VL as published: one flat configuration, `visual.*`, `model.*` and `lm_head.weight`."""
    config = _flat_config(directory, "qwen2_vl", "Qwen2VLForConditionalGeneration", PLAIN_VISION)
    model = Qwen2VLForConditionalGeneration(Qwen2VLConfig(**_copied(config)))
    return _write(directory, config, _published_tensors(model), IMAGES)


def tiny_qwen2_5_vl(directory: Path) -> Path:
    """Qwen2.5-VL as published, with windows of 2 x 2 merged patches so that small pictures have several."""
    config = _flat_config(directory, "qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration", WINDOWED_VISION)
    model = Qwen2_5_VLForConditionalGeneration(Qwen2_5_VLConfig(**_copied(config)))
    return _write(directory, config, _published_tensors(model), IMAGES)


def tiny_qwen3_vl(directory: Path, tied: bool = False, **vision: Any) -> Path:
    """Qwen3-VL as published: texts and pictures each in a configuration of their own, `model.visual.*` and
    `model.language_model.*`. vision: changes to its configuration."""
    vocabulary, ids = _vl_tokens(directory)
    rope = {"rope_type": "default", "mrope_interleaved": True, "mrope_section": [6, 5, 5]}
    text = {**_text_sizes(vocabulary), "num_hidden_layers": 3, "head_dim": 32, "rope_scaling": rope}
    config = {
        **ids,
        "architectures": ["Qwen3VLForConditionalGeneration"],
        "model_type": "qwen3_vl",
        "text_config": {**text, "model_type": "qwen3_vl_text"},
        "tie_word_embeddings": tied,
        "vision_config": {**DEEP_VISION, **vision, "model_type": "qwen3_vl"},
    }
    tensors = _random_tensors(Qwen3VLForConditionalGeneration(Qwen3VLConfig(**_copied(config))))
    return _write(directory, config, tensors, LARGER_PATCHES)


def tiny_qwen2_5_omni(directory: Path) -> Path:
    """Qwen2.5-Omni as published: everything below `thinker.`, beside a talker that nobody should touch."""
    thinker = tiny_thinker_config(directory)
    model = Qwen2_5OmniThinkerForConditionalGeneration(Qwen2_5OmniThinkerConfig(**_copied(thinker)))
    tensors = {f"thinker.{name}": tensor for name, tensor in _published_tensors(model).items()}
    tensors |= {"talker.model.norm.weight": torch.zeros(3), "token2wav.code2wav_dit_model.x": torch.zeros(3)}
    config = {
        "architectures": ["Qwen2_5OmniForConditionalGeneration"],
        "model_type": "qwen2_5_omni",
        "enable_audio_output": True,
        "thinker_config": thinker,
    }
    return _write(directory, config, tensors, {**IMAGES, **SOUNDS})


def tiny_qwen2_5_omni_thinker(directory: Path) -> Path:
    """The thinker alone, as its own class saves it."""
    thinker = tiny_thinker_config(directory)
    model = Qwen2_5OmniThinkerForConditionalGeneration(Qwen2_5OmniThinkerConfig(**_copied(thinker)))
    config = {"architectures": ["Qwen2_5OmniThinkerForConditionalGeneration"], **thinker}
    return _write(directory, config, _published_tensors(model), {**IMAGES, **SOUNDS})


def tiny_thinker_config(directory: Path) -> dict[str, Any]:
    """Writes the tokenizer, too."""
    vision = f"{OMNI_TOKENS['vision_start']}{OMNI_TOKENS['image']}{OMNI_TOKENS['vision_end']}"
    vocabulary = write_tokenizer(
        directory, (*CHAT_TOKENS, *OMNI_TOKENS.values()), _template(vision, _AUDIO_CASE)
    )
    names = {
        f"{name.replace('start', 'bos').replace('end', 'eos')}_token": t for name, t in OMNI_TOKENS.items()
    }
    tokenizer_config = json.loads((directory / "tokenizer_config.json").read_text())
    write_json(directory / "tokenizer_config.json", {**tokenizer_config, **names})
    ids = {name: vocabulary[token] for name, token in OMNI_TOKENS.items()}
    rope = {"type": "default", "rope_type": "default", "mrope_section": SECTIONS}
    return {
        "model_type": "qwen2_5_omni_thinker",
        "text_config": {**_text_sizes(vocabulary), "rope_scaling": rope},
        "vision_config": WINDOWED_VISION,
        "audio_config": AUDIO,
        **{f"{kind}_token_index": ids[kind] for kind in ("image", "audio", "video")},
        **{f"{name}_token_id": ids[name] for name in ids if "_" in name},
    }


def _flat_config(
    directory: Path, model_type: str, architecture: str, vision: dict[str, Any]
) -> dict[str, Any]:
    vocabulary, ids = _vl_tokens(directory)
    return {
        **_text_sizes(vocabulary),
        **ids,
        "architectures": [architecture],
        "model_type": model_type,
        "rope_scaling": {"type": "mrope", "mrope_section": SECTIONS},
        "tie_word_embeddings": False,
        "vision_config": {**vision, "model_type": model_type},
    }


def _vl_tokens(directory: Path) -> tuple[dict[str, int], dict[str, int]]:
    """Writes the tokenizer. Returns its vocabulary, and the ids that a configuration names."""
    brackets = f"{VL_TOKENS['vision_start']}{VL_TOKENS['image']}{VL_TOKENS['vision_end']}"
    vocabulary = write_tokenizer(directory, (*CHAT_TOKENS, *VL_TOKENS.values()), _template(brackets, ""))
    return vocabulary, {f"{name}_token_id": vocabulary[token] for name, token in VL_TOKENS.items()}


def _text_sizes(vocabulary: dict[str, int]) -> dict[str, Any]:
    ids = {"bos_token_id": vocabulary["<|endoftext|>"], "eos_token_id": vocabulary["<|im_end|>"]}
    rest = {"num_hidden_layers": 2, "rms_norm_eps": 1e-6, "rope_theta": ROPE_THETA}
    return {**SIZES, **rest, **ids, "vocab_size": padded(len(vocabulary))}


def _published_tensors(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """All parameters, made random, by the names that the hub's older checkpoints have."""
    tensors = {}
    for name, tensor in _random_tensors(model).items():
        name = name.replace("model.language_model.", "model.")
        name = (
            name.removeprefix("model.") if name.startswith(("model.visual.", "model.audio_tower.")) else name
        )
        tensors[name] = tensor
    return tensors


def _random_tensors(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """All parameters, made random, by their modules' names.

    Queries and keys are made strong, so that attention is sharp and an answer depends on every position."""
    generator = torch.Generator().manual_seed(0)
    tensors = {}
    for name, parameter in model.named_parameters():
        std = 0.3 if "q_proj" in name or "k_proj" in name else 0.1
        values = std * torch.randn(parameter.shape, generator=generator)
        is_gain = parameter.ndim == 1 and name.endswith("weight")
        tensors[name] = values + 1.0 if is_gain else values
    return tensors


def _write(
    directory: Path, config: dict[str, Any], tensors: dict[str, torch.Tensor], preprocessor: dict[str, Any]
) -> Path:
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    write_json(directory / "config.json", config)
    write_json(directory / "preprocessor_config.json", preprocessor)
    return directory


def _template(image_text: str, audio_case: str) -> str:
    return _TEMPLATE.replace("IMAGE_TEXT", image_text).replace("AUDIO_CASE", audio_case)


def _copied(config: dict[str, Any]) -> dict[str, Any]:
    """transformers writes into the dictionaries that it is given."""
    return json.loads(json.dumps(config))
