"""Text comes in whole characters, joined it is the whole text, and each token costs the same."""

import time

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from server.detokenizer import Detokenizer
from server.tokenizer import Tokenizer
from tests.server.test_tokenizer import LIBRARY, OURS

BYTE_EXACT = [name for name in OURS if name != "unigram"]


def pieces_of(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    detokenizer = Detokenizer(tokenizer)
    return [*(detokenizer.push([token_id]) for token_id in ids), detokenizer.finish()]


@pytest.mark.parametrize("name", BYTE_EXACT)
@pytest.mark.parametrize(
    "text", ["Hello world", "👩‍👩‍👧 🎉", "你好世界", "e\u0301a\u0308", "naïve café\n\n  x", " leading"]
)
def test_pieces_are_whole_characters(name: str, text: str) -> None:
    ids = OURS[name].encode_plain(text)
    pieces = pieces_of(OURS[name], ids)
    assert "\ufffd" not in "".join(pieces)
    assert "".join(pieces) == LIBRARY[name].decode(ids)


@pytest.mark.parametrize("name", OURS)
@settings(max_examples=50)
@given(data=st.data())
def test_any_cut_gives_the_same_text(name: str, data: st.DataObject) -> None:
    ids = data.draw(st.lists(st.integers(0, OURS[name].vocab_size - 1), max_size=30))
    whole = Detokenizer(OURS[name])
    at_once = whole.push(ids) + whole.finish()
    assert "".join(pieces_of(OURS[name], ids)) == at_once
    expected = LIBRARY[name].decode(ids)
    if "\ufffd" not in expected + at_once and not (name == "unigram" and ids[:1]):
        assert at_once == expected


def test_unfinished_character_is_flushed_at_the_end() -> None:
    tokenizer = OURS["byte level"]
    ids = tokenizer.encode_plain("🎉")[:-1]
    pieces = pieces_of(tokenizer, ids)
    assert "".join(pieces[:-1]) == ""
    assert pieces[-1] == "\ufffd"


def test_bytes_that_can_never_be_a_character_do_not_hold_up_the_rest() -> None:
    tokenizer = OURS["byte level"]
    lone = tokenizer.encode_plain("🎉")[-1]
    detokenizer = Detokenizer(tokenizer)
    assert detokenizer.push([lone, *tokenizer.encode_plain("ok")]).endswith("ok")


@pytest.mark.parametrize("name", OURS)
def test_special_tokens_are_left_out_and_others_kept(name: str) -> None:
    tokenizer = OURS[name]
    ids = [
        tokenizer.added_tokens["<|im_start|>"],
        *tokenizer.encode_plain("a"),
        tokenizer.added_tokens["<think>"],
        tokenizer.added_tokens["</s>"],
    ]
    text = "".join(pieces_of(tokenizer, ids))
    assert text.strip() == "a<think>"


def test_other_decoders() -> None:
    library = tokenizers.Tokenizer(
        tokenizers.models.WordPiece({"[UNK]": 0, "play": 1, "##ing": 2, "now": 3}, unk_token="[UNK]")
    )
    library.decoder = tokenizers.decoders.WordPiece()
    tokenizer = Tokenizer(library.to_str())
    assert "".join(pieces_of(tokenizer, [1, 2, 3])) == "playing now"


@pytest.mark.parametrize("name", ["byte level", "prepend"])
def test_each_token_is_cheap(name: str) -> None:
    tokenizer = OURS[name]
    ids = tokenizer.encode_plain("The quick brown fox 你好 🎉 ") * 500
    costs = []
    for _ in range(3):
        detokenizer = Detokenizer(tokenizer)
        begin = time.process_time()
        for token_id in ids:
            detokenizer.push((token_id,))
        costs.append((time.process_time() - begin) / len(ids))
    assert min(costs) < 20e-6
