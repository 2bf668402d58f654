"""The tokenizer of made checkpoints: byte-level BPE learned from made-up words, the same everywhere."""

import json
import random
from collections.abc import Sequence
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers


def make(vocab: int, special_tokens: Sequence[str]) -> Tokenizer:
    """At most `vocab` tokens, the special ones last."""
    rng = random.Random(7)
    syllables = [c + v for c in "bcdfghjklmnprstvwz" for v in "aeiou"]
    corpus = (
        " ".join("".join(rng.choices(syllables, k=rng.randint(1, 3))) for _ in range(50))
        for _ in range(min(vocab, 12_000))
    )
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab - len(special_tokens),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    tokenizer.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in special_tokens]
    )
    return tokenizer


def write(tokenizer: Tokenizer, directory: Path, settings: dict) -> None:
    """tokenizer.json, and tokenizer_config.json with `settings` added."""
    tokenizer.save(str(directory / "tokenizer.json"))
    added = {
        str(index): {
            "content": token.content,
            "special": True,
            "normalized": False,
            "lstrip": False,
            "rstrip": False,
        }
        for index, token in tokenizer.get_added_tokens_decoder().items()
    }
    config = {
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "bos_token": None,
        "model_max_length": 32_768,
        "added_tokens_decoder": added,
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(config | settings, indent=2))
