"""Tiny checkpoints with random weights, laid out as real ones are published, complete enough to be served."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    WhisperConfig,
    WhisperForConditionalGeneration,
)

SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TOOLS_TEMPLATE = """\
{%- if tools %}<|im_start|>system
Tools:{% for tool in tools %}
{{ tool | tojson }}{% endfor %}
Call one as <tool_call>
{"name": ..., "arguments": ...}
</tool_call>.<|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content or '' }}{% for call in message.tool_calls or [] %}<tool_call>
{"name": {{ call.function.name | tojson }}, "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
_CORPUS = (
    "the quick brown fox jumps over the lazy dog and then the dog says: what do you see in this picture? "
)

SIZES = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2048,
    "initializer_range": 0.1,
}


def write_tokenizer(
    directory: Path,
    special_tokens: Sequence[str] = SPECIAL_TOKENS,
    chat_template: str = CHAT_TEMPLATE,
    eos_token: str = "<|im_end|>",
    plain_tokens: Sequence[str] = (),
) -> dict[str, int]:
    """A byte-level BPE tokenizer of about 300 tokens, special tokens last, then added ones that are plain
    text. Returns token -> id."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False, min_frequency=1)
    tokenizer.train_from_iterator([_CORPUS], trainer)
    tokenizer.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in special_tokens]
    )
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in plain_tokens])
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(directory / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": eos_token,
        "pad_token": special_tokens[0],
        "chat_template": chat_template,
        "clean_up_tokenization_spaces": False,
    }
    write_json(directory / "tokenizer_config.json", config)
    return tokenizer.get_vocab()


def write_json(path: Path, content: dict) -> None:
    path.write_text(json.dumps(content, indent=2))


def save(
    model_class: type[PreTrainedModel], config: PreTrainedConfig, directory: Path, max_shard_size: str = "5GB"
) -> Path:
    """A model with seeded weights. Norms and biases are shaken, and matrices that would be zero are not: as
    initialised they would hide mistakes."""
    torch.manual_seed(0)
    model = model_class(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter += 0.1 * torch.randn_like(parameter)
            elif not parameter.any():
                parameter.normal_(0.0, 0.1)
    model.save_pretrained(directory, max_shard_size=max_shard_size)
    return directory


def _language_sizes(directory: Path, overrides: dict, **tokenizer: Any) -> dict:
    vocabulary = write_tokenizer(directory, **tokenizer)
    ids = {
        "eos_token_id": vocabulary["<|im_end|>"],
        "pad_token_id": vocabulary["<|endoftext|>"],
        "bos_token_id": None,
    }
    return {**SIZES, **ids, "vocab_size": padded(len(vocabulary)), **overrides}


def padded(size: int, multiple: int = 16) -> int:
    """Published vocabularies are padded: the model has more rows than the tokenizer has tokens."""
    return -(-size // multiple) * multiple


def tiny_llama(directory: Path, max_shard_size: str = "5GB", **overrides: object) -> Path:
    config = LlamaConfig(**_language_sizes(directory, overrides))
    return save(LlamaForCausalLM, config, directory, max_shard_size)


def tiny_caller(directory: Path) -> Path:
    """A Llama whose template takes tools and whose tokenizer has tags for calls, as Hermes and Qwen write
    them."""
    tokenizer = {"chat_template": TOOLS_TEMPLATE, "plain_tokens": ("<tool_call>", "</tool_call>")}
    return save(LlamaForCausalLM, LlamaConfig(**_language_sizes(directory, {}, **tokenizer)), directory)


def tiny_mistral(directory: Path, max_shard_size: str = "5GB", **overrides: object) -> Path:
    config = MistralConfig(**_language_sizes(directory, overrides))
    return save(MistralForCausalLM, config, directory, max_shard_size)


def tiny_qwen2(directory: Path, max_shard_size: str = "5GB", **overrides: object) -> Path:
    config = Qwen2Config(**_language_sizes(directory, overrides))
    return save(Qwen2ForCausalLM, config, directory, max_shard_size)


def tiny_qwen3(directory: Path, max_shard_size: str = "5GB", **overrides: object) -> Path:
    config = Qwen3Config(**_language_sizes(directory, {"head_dim": 32, **overrides}))
    return save(Qwen3ForCausalLM, config, directory, max_shard_size)


def tiny_ultravox(
    directory: Path, norm_between: bool = True, merged: bool = False, max_source_positions: int = 1500
) -> Path:
    """merged: encoder and language model lie beside the projector, else in checkpoints that it names."""
    whisper = tiny_whisper(directory / "whisper", max_source_positions)
    language = tiny_llama(directory / "language")
    write_tokenizer(directory)
    generator = torch.Generator().manual_seed(0)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator) * (0.1 if len(shape) > 1 else 0.2) + (len(shape) == 1)

    tensors = {
        "ln_pre.weight": random(8 * 32),
        "linear_1.weight": random(128, 8 * 32),
        "linear_2.weight": random(64, 64),
        "ln_mid.weight" if norm_between else "ln_post.weight": random(64),
    }
    tensors = {f"multi_modal_projector.{name}": tensor for name, tensor in tensors.items()}
    config = {
        "architectures": ["UltravoxModel"],
        "model_type": "ultravox",
        "hidden_size": 128,
        "stack_factor": 8,
        "projector_act": "swiglu",
        "projector_ln_mid": norm_between,
        "torch_dtype": "float32",
    }
    if merged:
        for name, tensor in load_file(whisper / "model.safetensors").items():
            if name.startswith("model.encoder."):
                tensors["audio_tower." + name.removeprefix("model.encoder.")] = tensor
        for name, tensor in load_file(language / "model.safetensors").items():
            tensors[f"language_model.{name}"] = tensor
        config["audio_config"] = json.loads((whisper / "config.json").read_text())
        config["text_config"] = json.loads((language / "config.json").read_text())
    else:
        config |= {"audio_model_id": "whisper", "text_model_id": "language"}
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    write_json(directory / "config.json", config)
    return directory


def tiny_whisper(directory: Path, max_source_positions: int = 1500) -> Path:
    config = WhisperConfig(
        vocab_size=64,
        num_mel_bins=80,
        d_model=32,
        encoder_layers=2,
        encoder_attention_heads=2,
        encoder_ffn_dim=48,
        decoder_layers=1,
        decoder_attention_heads=2,
        decoder_ffn_dim=48,
        max_source_positions=max_source_positions,
        init_std=0.1,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    save(WhisperForConditionalGeneration, config, directory)
    write_json(
        directory / "preprocessor_config.json",
        {"feature_size": 80, "feature_extractor_type": "WhisperFeatureExtractor"},
    )
    return directory
