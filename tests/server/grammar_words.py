"""Which texts a grammar allows, token by token, over a tokenizer in which some tags are single tokens."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tokenizers

from engine.grammar import GrammarCompiler, Vocabulary
from engine.messages import Grammar
from server.grammar_worker import fault
from tests.checkpoints import write_tokenizer


class GrammarWords:
    """tag_ids: of the tags that are single tokens."""

    def __init__(self, folder: Path, single_tokens: Sequence[str]) -> None:
        ids = write_tokenizer(folder, plain_tokens=tuple(single_tokens))
        definition = (folder / "tokenizer.json").read_text()
        self.tag_ids = {tag: ids[tag] for tag in single_tokens}
        self._end = ids["<|im_end|>"]
        self._tokenizer = tokenizers.Tokenizer.from_str(definition)
        self._compiler = GrammarCompiler(lambda: Vocabulary(definition, len(ids), [self._end]))

    def allows(self, grammar: Grammar, text: str) -> bool:
        """Whether each token may follow those before it. If so, the end must be allowed behind the last."""
        assert fault(grammar.kind, grammar.definition) == ""
        (matcher,) = self._compiler.compile(grammar, (self._end,), 1).result()

        def may_follow(token: int) -> bool:
            return bool(matcher.mask()[token // 32] >> np.uint32(token % 32) & 1)

        tokens = self._tokenizer.encode(text, add_special_tokens=False).ids
        follows = all(may_follow(token) and matcher.accept(token) for token in tokens)
        assert not follows or may_follow(self._end)
        return follows
