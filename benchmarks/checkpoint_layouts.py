"""How the made checkpoints are laid out: special tokens, configuration, settings, as each family has them."""

from collections.abc import Callable
from typing import NamedTuple

ENDS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


class Scale(NamedTuple):
    """Sizes of the language model, and the width and depth of each encoder."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    intermediate: int
    vocab: int
    encoder_hidden: int
    encoder_layers: int


class Layout(NamedTuple):
    """A family. config(scale, ids): of the transformers class `model`; ids: special token -> id.
    part_texts: what the template writes for a part of each kind. prefix: of each tensor's name."""

    model: str
    special_tokens: tuple[str, ...]
    part_texts: dict[str, str]
    config: Callable[[Scale, dict[str, int]], dict]
    tokenizer: dict
    preprocessor: dict
    prefix: str = ""

    @property
    def chat_template(self) -> str:
        cases = "".join(
            f"{{% elif part['type'] == '{kind}' or '{kind}' in part or '{kind}_url' in part %}}{text}"
            for kind, text in self.part_texts.items()
        ).replace("elif", "if", 1)
        return (
            "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
            "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
            "{% for part in message['content'] %}"
            f"{cases}"
            "{% elif 'text' in part %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n"
            "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
        )


def _text(scale: Scale, ids: dict[str, int]) -> dict:
    head_dim = scale.hidden // scale.heads
    eighth = head_dim // 8
    sections = [eighth, eighth + eighth // 2, head_dim // 2 - 2 * eighth - eighth // 2]
    return {
        "hidden_size": scale.hidden,
        "num_hidden_layers": scale.layers,
        "num_attention_heads": scale.heads,
        "num_key_value_heads": scale.kv_heads,
        "intermediate_size": scale.intermediate,
        "vocab_size": scale.vocab,
        "max_position_embeddings": 32_768,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1_000_000.0, "mrope_section": sections},
        "bos_token_id": ids["<|endoftext|>"],
        "eos_token_id": ids["<|im_end|>"],
        "tie_word_embeddings": False,
    }


def _vision(scale: Scale) -> dict:
    return {
        "hidden_size": scale.encoder_hidden,
        "depth": scale.encoder_layers,
        "num_heads": scale.encoder_hidden // 64,
        "intermediate_size": scale.encoder_hidden * 3,
        "out_hidden_size": scale.hidden,
        "patch_size": 14,
        "window_size": 112,
        "fullatt_block_indexes": [scale.encoder_layers // 2 - 1, scale.encoder_layers - 1],
    }


def _audio(scale: Scale) -> dict:
    return {
        "d_model": scale.encoder_hidden,
        "encoder_layers": scale.encoder_layers,
        "encoder_attention_heads": scale.encoder_hidden // 64,
        "encoder_ffn_dim": scale.encoder_hidden * 4,
        "output_dim": scale.hidden,
        "num_mel_bins": 128,
        "n_window": 100,
        "max_source_positions": 1500,
    }


def _vl_config(scale: Scale, ids: dict[str, int]) -> dict:
    return {
        "text_config": _text(scale, ids),
        "vision_config": _vision(scale),
        "image_token_id": ids["<|image_pad|>"],
        "video_token_id": ids["<|video_pad|>"],
        "vision_start_token_id": ids["<|vision_start|>"],
        "vision_end_token_id": ids["<|vision_end|>"],
        "tie_word_embeddings": False,
    }


def _omni_config(scale: Scale, ids: dict[str, int]) -> dict:
    """Of the thinker, the half that reads and writes."""
    return {
        "text_config": _text(scale, ids),
        "vision_config": _vision(scale),
        "audio_config": _audio(scale),
        "image_token_index": ids["<|IMAGE|>"],
        "audio_token_index": ids["<|AUDIO|>"],
        "video_token_index": ids["<|VIDEO|>"],
        "vision_start_token_id": ids["<|vision_bos|>"],
        "vision_end_token_id": ids["<|vision_eos|>"],
        "audio_start_token_id": ids["<|audio_bos|>"],
        "audio_end_token_id": ids["<|audio_eos|>"],
        "tie_word_embeddings": False,
    }


_IMAGES = {
    "image_processor_type": "Qwen2VLImageProcessor",
    "min_pixels": 56 * 56,
    "max_pixels": 28 * 28 * 1280,
    "patch_size": 14,
    "temporal_patch_size": 2,
    "merge_size": 2,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
}
_SOUNDS = {
    "feature_extractor_type": "WhisperFeatureExtractor",
    "feature_size": 128,
    "sampling_rate": 16_000,
    "hop_length": 160,
    "n_fft": 400,
    "chunk_length": 30,
    "n_samples": 480_000,
    "nb_max_frames": 3000,
    "padding_side": "right",
    "padding_value": 0.0,
    "dither": 0.0,
    "return_attention_mask": True,
}
_OMNI_NAMES = {
    "image_token": "<|IMAGE|>",
    "audio_token": "<|AUDIO|>",
    "video_token": "<|VIDEO|>",
    "vision_bos_token": "<|vision_bos|>",
    "vision_eos_token": "<|vision_eos|>",
    "audio_bos_token": "<|audio_bos|>",
    "audio_eos_token": "<|audio_eos|>",
}

LAYOUTS = {
    "vl": Layout(
        "Qwen2_5_VLForConditionalGeneration",
        (
            *ENDS,
            "<|vision_start|>",
            "<|vision_end|>",
            "<|vision_pad|>",
            "<|image_pad|>",
            "<|video_pad|>",
        ),
        {"image": "<|vision_start|><|image_pad|><|vision_end|>"},
        _vl_config,
        {"tokenizer_class": "Qwen2Tokenizer"},
        {**_IMAGES, "processor_class": "Qwen2_5_VLProcessor"},
    ),
    "omni": Layout(
        "Qwen2_5OmniThinkerForConditionalGeneration",
        (*ENDS, *_OMNI_NAMES.values()),
        {
            "image": "<|vision_bos|><|IMAGE|><|vision_eos|>",
            "audio": "<|audio_bos|><|AUDIO|><|audio_eos|>",
        },
        _omni_config,
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "processor_class": "Qwen2_5OmniProcessor",
            "extra_special_tokens": _OMNI_NAMES,
            **_OMNI_NAMES,
        },
        {**_IMAGES, **_SOUNDS, "processor_class": "Qwen2_5OmniProcessor"},
        prefix="thinker.",
    ),
}
