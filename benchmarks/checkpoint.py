"""Checkpoints with random weights at real scale, in the Qwen2.5-VL layout, made on the spot.

    python -m benchmarks.checkpoint 131m DIRECTORY

Greedy decoding never ends early and always yields plain ASCII words, so every server writes
the same amount of text.
"""

import json
import random
import sys
from pathlib import Path
from typing import NamedTuple

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

SPECIAL_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'image' or 'image' in part or 'image_url' in part %}"
    "<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif 'text' in part %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


class Scale(NamedTuple):
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    intermediate: int
    vocab: int
    vision_hidden: int
    vision_layers: int


SCALES = {
    "131m": Scale(768, 12, 12, 4, 2048, 32_000, 384, 6),
    "0.5b": Scale(1024, 24, 16, 4, 3584, 64_000, 768, 12),
}


def build(scale: Scale, directory: Path, seed: int = 0) -> None:
    """Write the whole directory: configuration, tokenizer, template, processor settings, bf16 weights."""
    import torch
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

    directory.mkdir(parents=True, exist_ok=True)
    tokenizer = _tokenizer(scale.vocab)
    ids = {token: tokenizer.token_to_id(token) for token in SPECIAL_TOKENS}
    torch.manual_seed(seed)
    config = Qwen2_5_VLConfig(**_config(scale, ids))
    model = Qwen2_5_VLForConditionalGeneration._from_config(config, dtype=torch.bfloat16)
    with torch.no_grad():
        head = model.lm_head.weight
        for token, index in tokenizer.get_vocab().items():
            if token in ids or not token.lstrip("Ġ").isascii() or not token.strip("Ġ").isalpha():
                head[index] = 0
        head[tokenizer.get_vocab_size() :] = 0
    model.generation_config.eos_token_id = ids["<|im_end|>"]
    model.save_pretrained(directory)
    tokenizer.save(str(directory / "tokenizer.json"))
    _write_json(directory / "tokenizer_config.json", _tokenizer_config(ids))
    _write_json(directory / "preprocessor_config.json", _preprocessor_config())
    (directory / "chat_template.jinja").write_text(CHAT_TEMPLATE)


def _tokenizer(vocab: int) -> Tokenizer:
    """Byte-level BPE learned from made-up words, so that it is the same everywhere."""
    rng = random.Random(7)
    syllables = [c + v for c in "bcdfghjklmnprstvwz" for v in "aeiou"]
    corpus = (
        " ".join("".join(rng.choices(syllables, k=rng.randint(1, 3))) for _ in range(50))
        for _ in range(12_000)
    )
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab - len(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    tokenizer.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS]
    )
    return tokenizer


def _config(scale: Scale, ids: dict[str, int]) -> dict:
    head_dim = scale.hidden // scale.heads
    quarter = head_dim // 8
    return {
        "text_config": {
            "hidden_size": scale.hidden,
            "num_hidden_layers": scale.layers,
            "num_attention_heads": scale.heads,
            "num_key_value_heads": scale.kv_heads,
            "intermediate_size": scale.intermediate,
            "vocab_size": scale.vocab,
            "max_position_embeddings": 32_768,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 1_000_000.0,
                "mrope_section": [
                    quarter,
                    quarter + quarter // 2,
                    head_dim // 2 - 2 * quarter - quarter // 2,
                ],
            },
            "bos_token_id": ids["<|endoftext|>"],
            "eos_token_id": ids["<|im_end|>"],
            "tie_word_embeddings": False,
        },
        "vision_config": {
            "hidden_size": scale.vision_hidden,
            "depth": scale.vision_layers,
            "num_heads": scale.vision_hidden // 64,
            "intermediate_size": scale.vision_hidden * 3,
            "out_hidden_size": scale.hidden,
            "patch_size": 14,
            "window_size": 112,
            "fullatt_block_indexes": [scale.vision_layers // 2 - 1, scale.vision_layers - 1],
        },
        "image_token_id": ids["<|image_pad|>"],
        "video_token_id": ids["<|video_pad|>"],
        "vision_start_token_id": ids["<|vision_start|>"],
        "vision_end_token_id": ids["<|vision_end|>"],
        "tie_word_embeddings": False,
    }


def _tokenizer_config(ids: dict[str, int]) -> dict:
    return {
        "tokenizer_class": "Qwen2Tokenizer",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "bos_token": None,
        "model_max_length": 32_768,
        "added_tokens_decoder": {
            str(index): {
                "content": token,
                "special": True,
                "normalized": False,
                "lstrip": False,
                "rstrip": False,
            }
            for token, index in ids.items()
        },
    }


def _preprocessor_config() -> dict:
    return {
        "image_processor_type": "Qwen2VLImageProcessor",
        "processor_class": "Qwen2_5_VLProcessor",
        "min_pixels": 56 * 56,
        "max_pixels": 28 * 28 * 1280,
        "patch_size": 14,
        "temporal_patch_size": 2,
        "merge_size": 2,
        "image_mean": [0.48145466, 0.4578275, 0.40821073],
        "image_std": [0.26862954, 0.26130258, 0.27577711],
    }


def _write_json(path: Path, content: dict) -> None:
    path.write_text(json.dumps(content, indent=2))


if __name__ == "__main__":
    build(SCALES[sys.argv[1]], Path(sys.argv[2]))
