"""Tokenizers and checkpoints built on the spot for tests of the server."""

from dataclasses import dataclass, field
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from kvcache.spans import MediaSpan
from models.processing.base import MediaLayout, Placeholder, PositionTable

CORPUS = [
    "The quick brown fox jumps over the lazy dog. A picture of a small house, and the sound of rain.",
    "user assistant system What is in this picture? There are three red circles and a number: 1234567890.",
    "def render(messages): return '\\n'.join(messages)  # think image start end",
    "Äpfel, Öl, Übung, naïve café, Привет мир, 你好世界, こんにちは, emoji 👩‍👩‍👧 🎉",
] * 4

CONTROL = ["<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|image_pad|>", "<|audio_pad|>", "<|vision_start|>"]
PLAIN_ADDED = ["<think>", "</think>", "<tool_call>", "</tool_call>"]

CHATML = """{%- if tools %}<|im_start|>system
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}<|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{% if message.content is string %}{{ message.content }}
{%- else %}{% for part in message.content or [] %}
{%- if part.type == 'image' or 'image' in part %}<|vision_start|><|image_pad|>
{%- elif 'audio' in part %}<|audio_pad|>
{%- else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}
{%- for call in message.tool_calls or [] %}<tool_call>
{"name": {{ call.function.name | tojson }}, "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking is defined and not enable_thinking %}<think>

</think>

{% endif %}{% endif %}"""

STRINGS_ONLY = (
    "{{ bos_token }}{% for m in messages %}[{{ m.role | upper }}] {{ m.content.strip() }}{{ eos_token }}"
    "{% endfor %}{% if add_generation_prompt %}[ASSISTANT]{% endif %}"
)


def byte_level(normalized: bool = False) -> tokenizers.Tokenizer:
    """Like Qwen's and Llama 3's: byte-level BPE with merges."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    if normalized:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    return _with_added(tokenizer, trainer)


def sentencepiece_bpe(style: str) -> tokenizers.Tokenizer:
    """Like Llama's and Mistral's. style: "first", "always" or "never" (Metaspace), or "prepend" (by
    normalizer)."""
    tokenizer = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    if style == "prepend":
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=style, split=False)
    strip = [] if style == "never" else [decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *strip]
    )
    specials = ["<unk>", *CONTROL[:2], *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(
        vocab_size=700, special_tokens=specials, show_progress=False, max_token_length=8
    )
    tokenizer = _with_added(tokenizer, trainer)
    definition = tokenizer.to_str()
    return tokenizers.Tokenizer.from_str(_without_added(definition, lambda text: text.startswith("<0x")))


def unigram() -> tokenizers.Tokenizer:
    """SentencePiece Unigram with Metaspace; its pieces include the text of the control tokens themselves."""
    tokenizer = tokenizers.Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=300, special_tokens=["<unk>", *CONTROL[:2]], unk_token="<unk>", show_progress=False
    )
    return _with_added(tokenizer, trainer)


def _with_added(tokenizer: tokenizers.Tokenizer, trainer: Any) -> tokenizers.Tokenizer:
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_special_tokens(CONTROL)
    tokenizer.add_tokens([tokenizers.AddedToken(text, normalized=False) for text in PLAIN_ADDED])
    return tokenizer


def _without_added(definition: str, unwanted: Any) -> str:
    import orjson

    parsed = orjson.loads(definition)
    parsed["added_tokens"] = [token for token in parsed["added_tokens"] if not unwanted(token["content"])]
    return orjson.dumps(parsed).decode()


@dataclass
class FakeCheckpoint:
    """What the server's prompt code reads of a checkpoint."""

    chat_template: str | None = CHATML
    eos_token_ids: tuple[int, ...] = ()
    tokenizer_config: dict[str, Any] = field(
        default_factory=lambda: {"bos_token": "<s>", "eos_token": "</s>"}
    )
    own_tool_template: str | None = None

    @property
    def tool_template(self) -> str | None:
        return self.own_tool_template or self.chat_template


class FakeProcessing:
    """Three tokens a picture row of 32 pixels, two tokens a second of sound."""

    kinds = frozenset({"image", "audio"})
    fingerprint = "fake 1"
    sampling_rate = 16000
    image_options: frozenset[str] = frozenset()
    bidirectional_kinds: frozenset[str] = frozenset()
    completes_prompts = False
    media_margin = ""

    def __init__(self, tokenizer: tokenizers.Tokenizer, markers: dict[str, str] | None = None) -> None:
        self._markers = markers or {"image": "<|image_pad|>", "audio": "<|audio_pad|>"}
        self._ids = {kind: tokenizer.token_to_id(f"<|{kind}_pad|>") for kind in ("image", "audio")}
        self._break = tokenizer.token_to_id("<|vision_start|>")

    def marker(self, kind: str) -> str:
        return self._markers[kind]

    def image_layout(self, width: int, height: int, options: str = "") -> MediaLayout:
        rows = max(1, height // 32)
        return MediaLayout(3 * rows, (1, rows, 3))

    def audio_layout(self, num_samples: int) -> MediaLayout:
        return MediaLayout(max(1, 2 * num_samples // self.sampling_rate))

    def prepare_image(self, image: Any, options: str = "") -> dict[str, Any]:
        raise NotImplementedError

    def prepare_audio(self, samples: Any) -> dict[str, Any]:
        raise NotImplementedError

    def placeholder(self, kind: str, layout: MediaLayout) -> Placeholder:
        """Pictures: rows of three, each followed by a break token. Sounds: one run."""
        token = self._ids[kind]
        if kind == "audio":
            return Placeholder([token] * layout.num_tokens, [(0, layout.num_tokens)])
        rows = layout.grid[1]
        return Placeholder(
            ([token] * 3 + [self._break]) * rows, [(4 * row, 4 * row + 3) for row in range(rows)]
        )

    def positions(self, num_tokens: int, spans: list[MediaSpan], items: Any) -> PositionTable:
        raise NotImplementedError
