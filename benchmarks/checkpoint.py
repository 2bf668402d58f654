"""Checkpoints with random weights at real scale, made on the spot.

    python -m benchmarks.checkpoint 131m DIRECTORY                  # Qwen2.5-VL's layout
    python -m benchmarks.checkpoint 131m DIRECTORY --layout omni    # Qwen2.5-Omni's, which also hears

Greedy decoding never ends early and always yields plain ASCII words, so every server writes
the same amount of text.
"""

import argparse
import json
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file

from benchmarks import checkpoint_tokenizer
from benchmarks.checkpoint_layouts import LAYOUTS, Layout, Scale

SCALES = {
    "tiny": Scale(64, 2, 4, 2, 96, 400, 64, 2),
    "131m": Scale(768, 12, 12, 4, 2048, 32_000, 384, 6),
    "0.5b": Scale(1024, 24, 16, 4, 3584, 64_000, 768, 12),
    "3b": Scale(2048, 36, 16, 2, 11_008, 64_000, 1280, 32),
}


def build(
    scale: Scale, directory: Path, layout: Layout = LAYOUTS["vl"], seed: int = 0, device: str = "cpu"
) -> None:
    """Write the whole directory: configuration, tokenizer, template, processor settings, bf16 weights, drawn
    on `device`."""
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer = checkpoint_tokenizer.make(scale.vocab, layout.special_tokens)
    ids = {token: tokenizer.get_vocab()[token] for token in layout.special_tokens}
    torch.manual_seed(seed)
    model_class = getattr(transformers, layout.model)
    config = model_class.config_class(**layout.config(scale, ids))
    with torch.device(device):
        model = model_class._from_config(config, dtype=torch.bfloat16)
    with torch.no_grad():
        head = model.lm_head.weight
        for token, index in tokenizer.get_vocab().items():
            if token in ids or not token.lstrip("Ġ").isascii() or not token.strip("Ġ").isalpha():
                head[index] = 0
        head[tokenizer.get_vocab_size() :] = 0
    model.generation_config.eos_token_id = ids["<|im_end|>"]
    model.save_pretrained(directory)
    if layout.prefix:
        _make_a_part(directory, layout.prefix)
    checkpoint_tokenizer.write(tokenizer, directory, layout.tokenizer)
    (directory / "preprocessor_config.json").write_text(json.dumps(layout.preprocessor, indent=2))
    (directory / "chat_template.jinja").write_text(layout.chat_template)


def _make_a_part(directory: Path, prefix: str) -> None:
    """Omni is published as a thinker beside what speaks; not every server takes a thinker alone."""
    weights = directory / "model.safetensors"
    tensors = {prefix + name: tensor for name, tensor in load_file(weights).items()}
    save_file(tensors, weights, metadata={"format": "pt"})
    config = {
        "architectures": ["Qwen2_5OmniForConditionalGeneration"],
        "model_type": "qwen2_5_omni",
        "dtype": "bfloat16",
        "enable_audio_output": False,
        "thinker_config": json.loads((directory / "config.json").read_text()),
    }
    (directory / "config.json").write_text(json.dumps(config, indent=2))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scale", choices=list(SCALES))
    parser.add_argument("directory", type=Path)
    parser.add_argument("--layout", choices=list(LAYOUTS), default="vl")
    options = parser.parse_args()
    build(SCALES[options.scale], options.directory, LAYOUTS[options.layout])


if __name__ == "__main__":
    main()
