"""What the tokens of a vocabulary are made of: their bytes, and a copy of the vocabulary without control
tokens.

Works on the JSON of tokenizer.json as the tokenizers library writes it. Knows nothing of prompts or
templates.
"""

import re
import secrets
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

_BYTE_FALLBACK = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SPACE = "▁"


class ByteRules(NamedTuple):
    """How a decoder turns a token's text into bytes. leading_spaces: stripped from the very first token's
    bytes: 0 none, 1 one, -1 all."""

    byte_level: bool
    byte_fallback: bool
    leading_spaces: int


def byte_rules(definition: dict[str, Any]) -> ByteRules | None:
    """The rules of a byte-level or SentencePiece-like decoder; None for any other kind."""
    parts = list(_flatten(definition.get("decoder"), "decoders"))
    kinds = {part["type"] for part in parts}
    if "ByteLevel" in kinds:
        return ByteRules(True, False, 0)
    strips = sum(
        part.get("start", 0) for part in parts if part["type"] == "Strip" and part.get("content") == " "
    )
    for part in parts:
        if part["type"] == "Metaspace":
            strips = 0 if part.get("prepend_scheme", "always") == "never" else -1
    spaces = any(part["type"] == "Replace" and part.get("content") == " " for part in parts)
    if "Metaspace" in kinds or (spaces and "Fuse" in kinds):
        return ByteRules(False, "ByteFallback" in kinds, strips)
    return None


def token_bytes(text: str, rules: ByteRules | None) -> bytes:
    """The bytes that one ordinary (not added) token stands for."""
    if rules is None:
        return text.encode("utf-8", "replace")
    if rules.byte_level:
        try:
            return bytes([_BYTE_OF_CHARACTER[character] for character in text])
        except KeyError:
            return text.encode("utf-8", "replace")
    if rules.byte_fallback and (match := _BYTE_FALLBACK.fullmatch(text)):
        return bytes([int(match[1], 16)])
    return text.replace(_SPACE, " ").encode("utf-8", "replace")


def without_control_tokens(definition: dict[str, Any], control_ids: Collection[int]) -> dict[str, Any]:
    """The same tokenizer, unable to produce a control token from any text that a person could type.

    Their text may also be an entry of the model's own vocabulary (SentencePiece pieces, BPE with
    `ignore_merges`), so in both places they keep their id, under an unguessable name.
    """
    model = dict(definition["model"])
    names = {token_id: _unguessable() for token_id in control_ids}
    if isinstance(model["vocab"], list):
        model["vocab"] = [
            [names.get(token_id, text), score] for token_id, (text, score) in enumerate(model["vocab"])
        ]
    else:
        renamed = {text: names[token_id] for text, token_id in model["vocab"].items() if token_id in names}
        model["vocab"] = {renamed.get(text, text): token_id for text, token_id in model["vocab"].items()}
        if model.get("unk_token") in renamed:
            model["unk_token"] = renamed[model["unk_token"]]
        if "merges" in model:
            model["merges"] = [
                [left, right]
                for left, right in model["merges"]
                if renamed.keys().isdisjoint((left + right, left, right))
            ]
    added = [
        {**token, "content": names.get(token["id"], token["content"])} for token in definition["added_tokens"]
    ]
    return {**definition, "model": model, "added_tokens": added, "post_processor": None}


def continuing(definition: dict[str, Any]) -> dict[str, Any] | None:
    """The tokenizer as it treats text that does not start its input; None where that makes no difference."""
    parts = list(_flatten(definition.get("pre_tokenizer"), "pretokenizers"))
    if not any(_prepends_at_start(part) for part in parts):
        return None
    parts = [{**part, "prepend_scheme": "never"} if _prepends_at_start(part) else part for part in parts]
    return {**definition, "pre_tokenizer": {"type": "Sequence", "pretokenizers": parts}}


def _prepends_at_start(part: dict[str, Any]) -> bool:
    return part["type"] == "Metaspace" and part.get("prepend_scheme") == "first"


def _flatten(part: dict[str, Any] | None, children: str) -> Iterator[dict[str, Any]]:
    if part is None:
        return
    if part["type"] == "Sequence":
        for child in part[children]:
            yield from _flatten(child, children)
    else:
        yield part


def _unguessable() -> str:
    return f"\uffff{secrets.token_hex(16)}"


def _bytes_of_characters() -> dict[str, int]:
    """GPT-2's alphabet: printable Latin-1 stands for itself, every other byte for the next character after
    255."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {chr(byte): byte for byte in printable}
    rest = (byte for byte in range(256) if chr(byte) not in table)
    return table | {chr(256 + index): byte for index, byte in enumerate(rest)}


_BYTE_OF_CHARACTER = _bytes_of_characters()
