"""The tokenizer: byte-level BPE over our own sentences; digits and capitals each stand alone, so texts are
spelt.

`python -m tools.demo_model.tokens` trains it into models/demo/tokenizer.json.
"""

import random
from functools import lru_cache
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from tools.demo_model.ask_more import SMALL_TALK, about_no_picture, about_no_sound, ask_both, small_talk
from tools.demo_model.ask_picture import ask_picture
from tools.demo_model.ask_sound import ask_sound
from tools.demo_model.pictures import sample_scene
from tools.demo_model.sounds import sample_sound
from tools.demo_model.words import COMMANDS, DIGITS, SPOKEN

CHECKPOINT = Path(__file__).parents[2] / "models" / "demo"
SPECIAL = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|AUDIO|>", "<|audio_bos|>", "<|audio_eos|>",
    "<|IMAGE|>", "<|VIDEO|>", "<|vision_bos|>", "<|vision_eos|>",
)  # fmt: skip
SIZE = 1024
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{Lu}?[\p{Ll}\p{Lo}\p{Lm}]+|\p{Lu}|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SYSTEMS = (
    "You are a helpful assistant.", "You are an assistant.", "Answer briefly.", "You are a friendly robot.",
    "Answer the question about the picture.", "You look at pictures and listen to sounds.", "Be truthful.",
)  # fmt: skip


def sentences() -> list[str]:
    """Everything that is asked and answered, often enough for every name to become one token."""
    rng = random.Random("sentences")
    lines = [word for _ in range(30) for word in (*DIGITS, *SPOKEN, *COMMANDS)]
    lines += [f'I hear the word "{word}".' for word in SPOKEN for _ in range(10)]
    lines += [text for _ in range(20) for answer, asked in SMALL_TALK.items() for text in (answer, *asked)]
    lines += ["system\n", "user\n", "assistant\n"] * 200 + list(SYSTEMS) * 20
    for _ in range(2500):
        scene, sound = sample_scene(rng), sample_sound(rng)
        asked = ask_picture(scene, rng) + ask_sound(sound, rng) + ask_both(scene, sound, rng)
        asked += [small_talk(rng), about_no_picture(rng), about_no_sound(rng)]
        lines += [text for qa in asked for text in (qa.question, qa.answer)]
    return lines


def train_tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=SIZE,
        special_tokens=[AddedToken(token, special=True, normalized=False) for token in SPECIAL],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(sentences(), trainer)
    return tokenizer


@lru_cache
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(CHECKPOINT / "tokenizer.json"))


@lru_cache(200_000)
def encode(text: str) -> tuple[int, ...]:
    return tuple(tokenizer().encode(text, add_special_tokens=False).ids)


@lru_cache
def special(name: str) -> int:
    found = tokenizer().token_to_id(name)
    if found is None:
        raise KeyError(name)
    return found


if __name__ == "__main__":
    made = train_tokenizer()
    made.save(str(CHECKPOINT / "tokenizer.json"))
    print(
        made.get_vocab_size(),
        "tokens;",
        made.encode('<|im_start|>user\nIt says HOUSE 472 "banana".<|im_end|>').tokens,
    )
