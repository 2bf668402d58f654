"""A tiny LLaVA, random weights, laid out and named as the published ones."""

from pathlib import Path
from typing import Any

from transformers import LlavaConfig, LlavaForConditionalGeneration

from tests.checkpoints import SIZES, padded, save, write_json, write_tokenizer

IMAGE_TOKEN = "<image>"
SIDE, PATCH = 70, 14
VISION = {
    "model_type": "clip_vision_model",
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "image_size": SIDE,
    "patch_size": PATCH,
    "initializer_range": 0.3,
}
IMAGES = {
    "image_processor_type": "CLIPImageProcessor",
    "size": {"shortest_edge": SIDE},
    "crop_size": {"height": SIDE, "width": SIDE},
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
}
_TEMPLATE = """\
{% for message in messages %}{{ message.role | upper }}: {% if message.content is string %}\
{{ message.content }}{% else %}{% for part in message.content %}{% if part.type == 'image' %}<image>
{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %} {% endfor %}\
{% if add_generation_prompt %}ASSISTANT:{% endif %}"""


def tiny_llava(directory: Path, text_type: str = "llama", **settings: Any) -> Path:
    """settings: of the whole configuration."""
    vocabulary = write_tokenizer(
        directory, ("<|endoftext|>", "<|im_end|>", IMAGE_TOKEN), chat_template=_TEMPLATE
    )
    ids = {"bos_token_id": vocabulary["<|endoftext|>"], "eos_token_id": vocabulary["<|im_end|>"]}
    text = {**SIZES, **ids, "model_type": text_type, "vocab_size": padded(len(vocabulary))}
    config = LlavaConfig(
        vision_config=dict(VISION), text_config=text, image_token_index=vocabulary[IMAGE_TOKEN], **settings
    )
    config.initializer_range = 0.3
    save(LlavaForConditionalGeneration, config, directory)
    write_json(directory / "preprocessor_config.json", IMAGES)
    with_class_row = settings.get("vision_feature_select_strategy") == "full"
    write_json(
        directory / "processor_config.json",
        {
            "image_token": IMAGE_TOKEN,
            "num_additional_image_tokens": 1,
            "patch_size": PATCH,
            "vision_feature_select_strategy": "full" if with_class_row else "default",
        },
    )
    return directory
