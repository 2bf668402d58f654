"""Tiny Gemma 3 checkpoints, random weights, laid out and named as the published ones."""

import json
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from transformers import (
    Gemma3Config,
    Gemma3ForCausalLM,
    Gemma3ForConditionalGeneration,
    Gemma3TextConfig,
    SiglipVisionConfig,
)

from tests.checkpoints import SIZES, padded, save, write_json, write_tokenizer

SIDE, PATCH, TOKENS = 112, 14, 16
"""A picture's side and that of its patches, in pixels, and the tokens that it becomes."""

TURN, END_OF_TURN = "<start_of_turn>", "<end_of_turn>"
MARKER, END, SOFT = "<start_of_image>", "<end_of_image>", "<image_soft_token>"
_SPECIAL = ("<pad>", "<bos>", "<eos>", TURN, END_OF_TURN, MARKER, END, SOFT)
TEXT = {
    "num_hidden_layers": 3,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    "sliding_window": 13,
    "head_dim": 32,
    "query_pre_attn_scalar": 24,
    "rope_parameters": {
        "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
        "full_attention": {"rope_type": "linear", "rope_theta": 1000.0, "factor": 8.0},
    },
}
"""A window that is shorter than a picture; positions that are turned in two ways."""
IMAGES = {
    "image_processor_type": "Gemma3ImageProcessor",
    "do_convert_rgb": None,
    "do_pan_and_scan": None,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
    "resample": 2,
    "size": {"height": SIDE, "width": SIDE},
}
CHAT_TEMPLATE = """\
{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- set before = (messages[0]['content'] if messages[0]['content'] is string
                      else messages[0]['content'][0]['text']) + '\\n\\n' -%}
    {%- set turns = messages[1:] -%}
{%- else -%}
    {%- set before = '' -%}
    {%- set turns = messages -%}
{%- endif -%}
{%- for turn in turns -%}
    {%- if (turn['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception('Turns must alternate') }}
    {%- endif -%}
    {{ '<start_of_turn>' + ('model' if turn['role'] == 'assistant' else turn['role']) + '\\n' -}}
    {{ before if loop.first else '' -}}
    {%- if turn['content'] is string -%}
        {{ turn['content'] | trim }}
    {%- else -%}
        {%- for part in turn['content'] -%}
            {{ '<start_of_image>' if part['type'] == 'image' else part['text'] | trim }}
        {%- endfor -%}
    {%- endif -%}
    {{ '<end_of_turn>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{ '<start_of_turn>model\\n' }}
{%- endif -%}
"""


def tiny_gemma3_text(directory: Path, **overrides: Any) -> Path:
    """overrides: of the configuration."""
    return save(Gemma3ForCausalLM, Gemma3TextConfig(**_text_sizes(directory, overrides)), directory)


def tiny_gemma3(directory: Path, text: dict[str, Any] | None = None, **overrides: Any) -> Path:
    """text: overrides of the language model's configuration; overrides: of the vision tower's."""
    sizes = _text_sizes(directory, text or {})
    vocabulary = Tokenizer.from_file(str(directory / "tokenizer.json")).get_vocab()
    vision = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "image_size": SIDE,
        "patch_size": PATCH,
        "vision_use_head": False,
        **overrides,
    }
    config = Gemma3Config(
        text_config=sizes,
        vision_config=SiglipVisionConfig(**vision).to_dict(),
        mm_tokens_per_image=TOKENS,
        boi_token_index=vocabulary[MARKER],
        eoi_token_index=vocabulary[END],
        image_token_index=vocabulary[SOFT],
        eos_token_id=[vocabulary["<eos>"], vocabulary[END_OF_TURN]],
        initializer_range=0.1,
    )
    save(Gemma3ForConditionalGeneration, config, directory)
    write_json(directory / "preprocessor_config.json", IMAGES)
    write_json(
        directory / "processor_config.json",
        {"processor_class": "Gemma3Processor", "image_seq_length": TOKENS},
    )
    return directory


def _text_sizes(directory: Path, overrides: dict[str, Any]) -> dict[str, Any]:
    vocabulary = write_tokenizer(
        directory, _SPECIAL, CHAT_TEMPLATE, END_OF_TURN, plain_tokens=("\n\n", "\n\n\n")
    )
    path = directory / "tokenizer_config.json"
    named = {"bos_token": "<bos>", "boi_token": MARKER, "eoi_token": END, "image_token": SOFT}
    write_json(path, {**json.loads(path.read_text()), **named})
    ids = {
        "pad_token_id": vocabulary["<pad>"],
        "bos_token_id": vocabulary["<bos>"],
        "eos_token_id": [vocabulary["<eos>"], vocabulary[END_OF_TURN]],
    }
    return {**SIZES, **ids, "vocab_size": padded(len(vocabulary)), **TEXT, **overrides}
