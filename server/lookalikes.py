"""Typed text that looks like a control token, hidden while a template is rendered and brought back
afterwards.

Whatever a client typed must reach the model as text. So before rendering, every stretch of it that is a
control token, or could become one together with its neighbours, is replaced by one private-use character;
control tokens in the rendered text are then the template's own. Knows nothing of templates, messages or token
ids.
"""

import re
from collections.abc import Iterable

_FIRST, _LAST = 0xF0000, 0xFFFFD  # private-use plane 15

STRUCTURAL_WORDS = frozenset(
    [
        "type",
        "function",
        "object",
        "string",
        "number",
        "integer",
        "boolean",
        "array",
        "null",
        "name",
        "description",
        "parameters",
        "arguments",
        "properties",
        "required",
        "items",
        "enum",
        "anyOf",
        "oneOf",
        "allOf",
        "default",
        "title",
        "content",
        "role",
        "text",
        "id",
    ]
)
"""Words that templates compare with or look up; hidden they would be missed, and no control token is made of
them."""


class TooManyLookalikes(ValueError):
    """More different lookalikes than there are private-use characters."""


class Lookalikes:
    """What must not be typed. Immutable, shared by all prompts."""

    def __init__(self, texts: Iterable[str]) -> None:
        known = sorted({text for text in texts if text})
        lowered = {text.lower() for text in known}
        self._all = "\n".join(sorted(lowered))
        self._longest = max(map(len, known), default=0)
        self._beginnings = {text[:length] for text in lowered for length in range(1, len(text))}
        self._endings = {text[length:] for text in lowered for length in range(1, len(text))}
        patterns = [f"[{chr(_FIRST)}-{chr(_LAST)}]", *([longest_match(known)] if known else [])]
        # A template may change case (`| upper`); what is a lookalike then is one before.
        self._pattern = re.compile("|".join(patterns), re.IGNORECASE)

    def whole(self, text: str) -> list[tuple[int, int]]:
        """Where whole lookalikes are."""
        return [match.span() for match in self._pattern.finditer(text)]

    def loose_ends(self, text: str) -> tuple[int, int]:
        """How many characters at the start could end a control token, and at the end could begin one."""
        reach = min(len(text), self._longest)
        lengths = range(reach, 0, -1)
        head = next((n for n in lengths if text[:n].lower() in self._endings), 0)
        tail = next((n for n in lengths if text[-n:].lower() in self._beginnings), 0)
        return head, tail

    def is_inner_part(self, text: str) -> bool:
        """Whether the text could be the middle of a control token that a template's own characters
        complete."""
        return 0 < len(text) < self._longest and text not in STRUCTURAL_WORDS and text.lower() in self._all


class HiddenText:
    """The stretches hidden for one prompt. `restore` undoes `hide`, wherever the pieces went in between."""

    def __init__(self, lookalikes: Lookalikes) -> None:
        self._lookalikes = lookalikes
        self._characters: dict[str, str] = {}
        self._texts: dict[int, str] = {}

    def hide(self, text: str, inner: bool = True) -> str:
        """inner: also hide a text that as a whole is part of a control token (`<{{ name }}>` with the name
        `think`); not for values that templates compare with words of their own."""
        if inner and self._lookalikes.is_inner_part(text):
            return self._character(text)
        pieces, done = [], 0
        for start, end in self._lookalikes.whole(text):
            pieces += [text[done:start], self._character(text[start:end])]
            done = end
        text = "".join([*pieces, text[done:]])
        head, tail = self._lookalikes.loose_ends(text)
        if head + tail >= len(text):
            return self._character(text) if text else text  # no hidden character is part of a loose end
        if tail:
            text = text[:-tail] + self._character(text[-tail:])
        return self._character(text[:head]) + text[head:] if head else text

    def restore(self, text: str) -> str:
        return text.translate(self._texts) if self._texts else text

    def _character(self, text: str) -> str:
        known = self._characters.get(text)
        if known is None:
            code = _FIRST + len(self._characters)
            if code > _LAST:
                raise TooManyLookalikes("The text holds too many different private-use characters.")
            known = self._characters[text] = chr(code)
            self._texts[code] = text
        return known


def longest_match(texts: Iterable[str]) -> str:
    """A pattern that matches the longest of the texts at a place, with common beginnings shared: thousands of
    added tokens cost no more than one."""
    tree: dict[str, dict] = {}
    for text in texts:
        node = tree
        for character in text:
            node = node.setdefault(character, {})
        node[""] = {}
    return _pattern(tree)


def _pattern(node: dict[str, dict]) -> str:
    prefix = ""
    while len(node) == 1 and "" not in node:
        ((character, node),) = node.items()
        prefix += re.escape(character)
    branches = [re.escape(character) + _pattern(child) for character, child in node.items() if character]
    if not branches:
        return prefix
    return f"{prefix}(?:{'|'.join(branches)}){'?' if '' in node else ''}"
