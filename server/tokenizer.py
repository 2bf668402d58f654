"""Text to token ids and back, for one checkpoint. Knows nothing of chat messages, templates or media.

Two encoders stand side by side: one that knows the added tokens, for text that a template's author (or the
author of a raw prompt) wrote, and one that can't produce them, for text that came from a client's message.
"""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import tokenizers

from models.checkpoint import Checkpoint, CheckpointError
from server.vocabulary import ByteRules, byte_rules, continuing, token_bytes, without_control_tokens

SHOWN = frozenset({"<think>", "</think>", "<tool_call>", "</tool_call>"})
"""Tags that are read out of the text: they are part of it even where a checkpoint calls them special."""


_LONG_TEXT = 4096
CONVERSION_TIMEOUT_S = 120
_NFC_JOINS = 4
"""Characters that normalisation makes one of, at most."""


class ControlToken(NamedTuple):
    """An added token that is more than white space; the flags say how it takes in its surroundings."""

    id: int
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False


class Tokenizer:
    """added_tokens: text -> id of every added token. control_tokens: those that must never come from typed
    text.

    Added tokens of white space only (some vocabularies have them for runs of line breaks) are ordinary text.
    special_ids: tokens that are left out of decoded text. Safe to share between threads.
    """

    def __init__(self, definition: str, config: Mapping[str, Any] | None = None) -> None:
        """definition: the contents of tokenizer.json; config: those of tokenizer_config.json."""
        config = config or {}
        self._full = tokenizers.Tokenizer.from_str(definition)
        self._full.no_truncation()
        self._full.no_padding()
        _add_missing(self._full, config)
        added = self._full.get_added_tokens_decoder()
        self.added_tokens = {token.content: token_id for token_id, token in added.items()}
        self.control_tokens = {
            token.content: ControlToken(token_id, token.lstrip, token.rstrip, token.single_word)
            for token_id, token in added.items()
            if token.content.strip(" \t\r\n▁")
        }
        self.special_ids = frozenset(
            token_id for token_id, token in added.items() if token.special and token.content not in SHOWN
        )
        self.special_tokens = _named_tokens(config)
        self.vocab_size = self._full.get_vocab_size(with_added_tokens=True)
        self._bytes: dict[int, bytes] = {
            token_id: token.content.encode() for token_id, token in added.items()
        }

        canonical = orjson.loads(self._full.to_str())
        self._rules = byte_rules(canonical)
        self.max_token_chars = self._max_token_chars(canonical)
        plain = without_control_tokens(canonical, {token.id for token in self.control_tokens.values()})
        self._plain = tokenizers.Tokenizer.from_str(orjson.dumps(plain).decode())
        rest = continuing(plain)
        self._plain_rest = tokenizers.Tokenizer.from_str(orjson.dumps(rest).decode()) if rest else self._plain

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> "Tokenizer":
        if checkpoint.tokenizer_file is not None:
            definition = checkpoint.tokenizer_file.read_text("utf-8")
        else:
            definition = _converted(checkpoint.path)
        return cls(definition, checkpoint.tokenizer_config)

    def _max_token_chars(self, definition: dict[str, Any]) -> int:
        """Only where text is what its tokens' bytes spell: nothing is dropped, merged or swallowed."""
        normalizer = (definition.get("normalizer") or {}).get("type")
        swallows = any(token.lstrip or token.rstrip for token in self.control_tokens.values())
        spells = self._rules is not None and (self._rules.byte_level or self._rules.byte_fallback)
        if not spells or swallows or normalizer not in (None, "NFC"):
            return 0
        longest = max(map(len, self._full.get_vocab(with_added_tokens=True)), default=0)
        return longest * (_NFC_JOINS if normalizer else 1)

    @property
    def bos_token(self) -> str | None:
        return self.special_tokens.get("bos_token")

    @property
    def eos_token(self) -> str | None:
        return self.special_tokens.get("eos_token")

    @property
    def byte_rules(self) -> ByteRules | None:
        """None where tokens can't be decoded one by one as bytes (see `Detokenizer`)."""
        return self._rules

    def encode(self, text: str, add_special_tokens: bool = False) -> list[int]:
        """Ids of text whose added tokens count as such. add_special_tokens: with what the checkpoint puts
        around every input (often a beginning-of-sequence token)."""
        return _encode(self._full, text, add_special_tokens)

    def encode_plain(self, text: str, continued: bool = False) -> list[int]:
        """Ids of text that a client typed: never the id of a control token, whatever it says.

        continued: the text follows other text of the same input, so it gets no prefix meant for the input's
        start. (Vocabularies without byte fallback may answer an unknown character with their "unknown"
        token.)
        """
        return _encode(self._plain_rest if continued else self._plain, text, False)

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        return self._full.decode(list(ids), skip_special_tokens=skip_special_tokens)

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes of one token, possibly part of a character; b"" for an id that stands for nothing."""
        known = self._bytes.get(token_id)
        if known is None:
            text = self._full.id_to_token(token_id) if 0 <= token_id < 1 << 31 else None
            known = self._bytes[token_id] = b"" if text is None else token_bytes(text, self._rules)
        return known

    def token_id(self, text: str) -> int | None:
        return self._full.token_to_id(text)

    def decode_step(self, stream: Any, token_id: int) -> str:
        """Feed a `tokenizers.decoders.DecodeStream`."""
        return stream.step(self._full, token_id) or ""


class Untokenizable(ValueError):
    """The library gave up on a text."""


def _encode(tokenizer: tokenizers.Tokenizer, text: str, add_special_tokens: bool) -> list[int]:
    """The library lets other threads run only during a batch, which for short text costs more than it is
    worth."""
    try:
        if len(text) < _LONG_TEXT:
            return tokenizer.encode(text, add_special_tokens=add_special_tokens).ids
        return tokenizer.encode_batch_fast([text], add_special_tokens=add_special_tokens)[0].ids
    except BaseException as error:  # a panic of Rust's is no Exception, and has no name that can be imported
        if type(error).__name__ != "PanicException":
            raise
        raise Untokenizable("The text can't be tokenised: too much of it is alike.") from None


def _add_missing(tokenizer: tokenizers.Tokenizer, config: Mapping[str, Any]) -> None:
    """tokenizer_config.json may list added tokens that tokenizer.json lacks, each at its next free id."""
    for token_id, token in sorted(
        (config.get("added_tokens_decoder") or {}).items(), key=lambda item: int(item[0])
    ):
        known = tokenizer.id_to_token(int(token_id)) is not None
        if not known and int(token_id) == tokenizer.get_vocab_size(with_added_tokens=True):
            flags = {
                k: token[k]
                for k in ("single_word", "lstrip", "rstrip", "normalized", "special")
                if k in token
            }
            tokenizer.add_tokens([tokenizers.AddedToken(token["content"], **flags)])


def _named_tokens(config: Mapping[str, Any]) -> dict[str, str]:
    """`bos_token`, `eos_token`, `image_token` and so on, as templates may ask for them by name."""
    named = {
        **config,
        **_mapping(config.get("extra_special_tokens")),
        **_mapping(config.get("model_specific_special_tokens")),
    }
    texts = {
        name: token.get("content") if isinstance(token, dict) else token for name, token in named.items()
    }
    return {name: text for name, text in texts.items() if name.endswith("_token") and isinstance(text, str)}


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _converted(path: Path) -> str:
    """The definition of a checkpoint that has no tokenizer.json. CheckpointError if it has none at all."""
    command = [sys.executable, "-P", "-m", "models.slow_tokenizer", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=CONVERSION_TIMEOUT_S)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
        raise CheckpointError(f"{path} has no tokenizer that can be read: {reason[:300]}")
    return done.stdout
