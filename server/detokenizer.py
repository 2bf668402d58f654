"""Token ids to text as they come, never half a character. Knows nothing of stop strings or streams to
clients."""

import codecs
from collections.abc import Iterable

from tokenizers.decoders import DecodeStream

from server.tokenizer import Tokenizer


class Detokenizer:
    """One answer's text: `push` ids as they come, then `finish` once. The pieces joined are the whole text.

    Special tokens are left out unless they are among `shown_ids`, other added tokens (say `<think>`) kept.
    Bytes that make up no character become U+FFFD, but only when it is certain that they never will. Each
    token costs the same however long the text is.
    """

    def __init__(self, tokenizer: Tokenizer, shown_ids: frozenset[int] = frozenset()) -> None:
        self._hidden_ids = tokenizer.special_ids - shown_ids
        rules = tokenizer.byte_rules
        self._pieces = _ByteStream(tokenizer, rules.leading_spaces) if rules else _TokenStream(tokenizer)

    def push(self, token_ids: Iterable[int]) -> str:
        """The text that became certain with these tokens."""
        return self._pieces.push([token_id for token_id in token_ids if token_id not in self._hidden_ids])

    def finish(self) -> str:
        """What was held back."""
        return self._pieces.finish()


class _ByteStream:
    """For vocabularies whose tokens are bytes: an incremental UTF-8 decoder holds back what is incomplete."""

    def __init__(self, tokenizer: Tokenizer, leading_spaces: int) -> None:
        self._token_bytes = tokenizer.token_bytes
        self._leading_spaces = leading_spaces
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token_ids: list[int]) -> str:
        if self._leading_spaces and token_ids:
            first, *rest = token_ids
            data = _strip(self._token_bytes(first), self._leading_spaces) + b"".join(
                map(self._token_bytes, rest)
            )
            self._leading_spaces = 0
        else:
            data = b"".join(map(self._token_bytes, token_ids))
        return self._decoder.decode(data)

    def finish(self) -> str:
        return self._decoder.decode(b"", final=True)


class _TokenStream:
    """For other vocabularies (WordPiece, say), where only the library knows how tokens join."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._stream = DecodeStream(skip_special_tokens=False)
        self._ids: list[int] = []
        self._num_emitted = 0

    def push(self, token_ids: list[int]) -> str:
        self._ids += token_ids
        text = "".join(self._tokenizer.decode_step(self._stream, token_id) for token_id in token_ids)
        self._num_emitted += len(text)
        return text

    def finish(self) -> str:
        return self._tokenizer.decode(self._ids, skip_special_tokens=False)[self._num_emitted :]


def _strip(data: bytes, leading_spaces: int) -> bytes:
    return data.lstrip(b" ") if leading_spaces < 0 else data[1:] if data.startswith(b" ") else data
