"""A tiny Qwen2-Audio, random weights, laid out and named as the published ones."""

from pathlib import Path

from transformers import Qwen2AudioConfig, Qwen2AudioForConditionalGeneration

from tests.checkpoints import SIZES, padded, save, write_json, write_tokenizer

TOKENS = ("<|AUDIO|>", "<|audio_bos|>", "<|audio_eos|>")
SECONDS = 4
"""The longest sound; 30 as published."""
SOUNDS = {
    "feature_extractor_type": "WhisperFeatureExtractor",
    "feature_size": 128,
    "sampling_rate": 16000,
    "hop_length": 160,
    "n_fft": 400,
    "chunk_length": SECONDS,
    "n_samples": SECONDS * 16000,
    "nb_max_frames": SECONDS * 100,
    "padding_side": "right",
    "padding_value": 0.0,
    "return_attention_mask": True,
}
AUDIO = {
    "model_type": "qwen2_audio_encoder",
    "num_mel_bins": 128,
    "d_model": 32,
    "encoder_layers": 2,
    "encoder_attention_heads": 2,
    "encoder_ffn_dim": 48,
    "max_source_positions": SECONDS * 50,
    "initializer_range": 0.3,
}
_TEMPLATE = """\
{% for message in messages %}<|im_start|>{{ message.role }}
{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content %}\
{% if part.type == 'audio' %}<|audio_bos|><|AUDIO|><|audio_eos|>
{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def tiny_qwen2_audio(directory: Path) -> Path:
    special = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", *TOKENS)
    vocabulary = write_tokenizer(directory, special, _TEMPLATE)
    ids = {"bos_token_id": vocabulary["<|endoftext|>"], "eos_token_id": vocabulary["<|im_end|>"]}
    text = {**SIZES, **ids, "model_type": "qwen2", "vocab_size": padded(len(vocabulary))}
    config = Qwen2AudioConfig(
        audio_config=dict(AUDIO), text_config=text, audio_token_index=vocabulary["<|AUDIO|>"]
    )
    config.initializer_range = 0.3
    save(Qwen2AudioForConditionalGeneration, config, directory)
    write_json(directory / "preprocessor_config.json", SOUNDS)
    return directory
