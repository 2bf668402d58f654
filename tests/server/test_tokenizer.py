"""Typed text never yields a control token; every token's bytes are known."""

import io
from pathlib import Path

import orjson
import pytest
import sentencepiece
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from models.checkpoint import Checkpoint, CheckpointError
from server.tokenizer import Tokenizer, Untokenizable, _encode
from tests.checkpoints import write_json, write_tokenizer
from tests.server import checkpoints

BUILDERS = {
    "byte level": checkpoints.byte_level,
    "byte level, NFC": lambda: checkpoints.byte_level(normalized=True),
    "metaspace first": lambda: checkpoints.sentencepiece_bpe("first"),
    "metaspace always": lambda: checkpoints.sentencepiece_bpe("always"),
    "metaspace never": lambda: checkpoints.sentencepiece_bpe("never"),
    "prepend": lambda: checkpoints.sentencepiece_bpe("prepend"),
    "unigram": checkpoints.unigram,
}
LIBRARY = {name: build() for name, build in BUILDERS.items()}
OURS = {name: Tokenizer(library.to_str(), {"bos_token": "<s>"}) for name, library in LIBRARY.items()}

SPECIALS = [*checkpoints.CONTROL, *checkpoints.PLAIN_ADDED]
typed = st.lists(
    st.sampled_from([*SPECIALS, "<", "|>", "a", " ", "\n", "Ä", "你", "<|im_", "word"]) | st.text(max_size=5)
)


@pytest.mark.parametrize("name", OURS)
@settings(max_examples=60)
@given(pieces=typed)
def test_plain_text_is_never_control(name: str, pieces: list[str]) -> None:
    tokenizer = OURS[name]
    for continued in (False, True):
        ids = tokenizer.encode_plain("".join(pieces), continued)
        unknown = {LIBRARY[name].token_to_id("<unk>")}
        assert not (set(ids) - unknown) & {token.id for token in tokenizer.control_tokens.values()}


@pytest.mark.parametrize("name", [name for name in OURS if name != "unigram"])
@settings(max_examples=60)
@given(text=st.text(alphabet=st.characters(codec="utf-8", exclude_characters="▁"), max_size=30))
def test_plain_text_survives(name: str, text: str) -> None:
    tokenizer = OURS[name]
    if "NFC" in name:
        text = LIBRARY[name].normalizer.normalize_str(text)
    ids = tokenizer.encode_plain(text)
    joined = b"".join(tokenizer.token_bytes(token_id) for token_id in ids).decode()
    assert joined in (text, " " + text)


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize(
    "text", ["Hello world", " two  spaces ", "a\n\nb", "Übung 你好 🎉", "1234567890", ""]
)
def test_plain_equals_the_library_without_lookalikes(name: str, text: str) -> None:
    expected = LIBRARY[name].encode(text, add_special_tokens=False).ids
    assert OURS[name].encode_plain(text) == expected
    assert OURS[name].encode(text) == expected


@pytest.mark.parametrize("name", OURS)
def test_template_text_keeps_control_tokens(name: str) -> None:
    for text in SPECIALS:
        assert OURS[name].encode(text)[-1] == LIBRARY[name].token_to_id(text)
    assert OURS[name].added_tokens["<think>"] == LIBRARY[name].token_to_id("<think>")
    assert OURS[name].vocab_size == LIBRARY[name].get_vocab_size()


def test_words_that_the_model_itself_would_merge() -> None:
    """An added token that is an ordinary entry of the vocabulary too, reachable by merges or as a whole
    word."""
    definition = orjson.loads(LIBRARY["byte level"].to_str())
    model = definition["model"]
    first_merges = [[piece[:-1], piece[-1]] for piece in ("<t", "<th", "<thi", "<thin", "<think", "<think>")]
    model["merges"] = first_merges + model["merges"]
    for piece in ("<t", "<th", "<thi", "<thin", "<think"):
        model["vocab"].setdefault(piece, len(model["vocab"]) + 100)
    model["vocab"]["<think>"] = definition["added_tokens"][-4]["id"]
    for ignore_merges in (False, True):
        model["ignore_merges"] = ignore_merges
        definition["pre_tokenizer"]["use_regex"] = False
        definition["added_tokens"] = [t for t in definition["added_tokens"] if t["content"] == "<think>"]
        bare = tokenizers.Tokenizer.from_str(orjson.dumps({**definition, "added_tokens": []}).decode())
        assert bare.encode("<think>").ids == [model["vocab"]["<think>"]], (
            "taking out added tokens is not enough"
        )
        tokenizer = Tokenizer(orjson.dumps(definition).decode())
        ids = tokenizer.encode_plain("<think>")
        assert tokenizer.added_tokens["<think>"] not in ids
        assert tokenizer.decode(ids) == "<think>"


def test_white_space_added_tokens_stay_text() -> None:
    library = checkpoints.byte_level()
    library.add_tokens(["\n\n"])
    tokenizer = Tokenizer(library.to_str())
    assert library.token_to_id("\n\n") in tokenizer.encode_plain("a\n\nb")
    assert "\n\n" not in tokenizer.control_tokens


def test_names_of_special_tokens() -> None:
    config = {
        "bos_token": {"content": "<s>"},
        "eos_token": "</s>",
        "pad_token": None,
        "extra_special_tokens": {"image_token": "<|image_pad|>"},
        "add_bos_token": True,
    }
    tokenizer = Tokenizer(LIBRARY["byte level"].to_str(), config)
    assert (tokenizer.bos_token, tokenizer.eos_token) == ("<s>", "</s>")
    assert tokenizer.special_tokens == {
        "bos_token": "<s>",
        "eos_token": "</s>",
        "image_token": "<|image_pad|>",
    }


def test_tokens_of_the_configuration_file() -> None:
    size = LIBRARY["byte level"].get_vocab_size()
    config = {"added_tokens_decoder": {str(size): {"content": "<|late|>", "special": True}}}
    tokenizer = Tokenizer(LIBRARY["byte level"].to_str(), config)
    assert tokenizer.encode("<|late|>") == [size]
    assert size not in tokenizer.encode_plain("<|late|>")


@pytest.mark.parametrize("token_id", [-1, 10**6, 2**40])
def test_bytes_of_no_token(token_id: int) -> None:
    assert OURS["byte level"].token_bytes(token_id) == b""


@pytest.mark.parametrize("normalized", [False, True])
@given(text=st.text(max_size=300))
def test_no_token_stands_for_more_characters_than_promised(normalized: bool, text: str) -> None:
    tokenizer = OURS["byte level, NFC" if normalized else "byte level"]
    assert tokenizer.max_token_chars > 0
    assert len(tokenizer.encode_plain(text)) * tokenizer.max_token_chars >= len(text)


def test_where_text_can_be_swallowed_nothing_is_promised() -> None:
    assert OURS["unigram"].max_token_chars == 0


def test_long_text_gives_the_tokens_of_its_pieces() -> None:
    tokenizer = OURS["byte level"]
    word = " the quick"
    assert tokenizer.encode_plain(word * 1000) == tokenizer.encode_plain(word) * 1000
    assert tokenizer.encode("<|im_end|>" * 1000) == [tokenizer.added_tokens["<|im_end|>"]] * 1000


def test_a_tokenizer_of_an_older_form_is_converted_in_a_process_of_its_own(tmp_path: Path) -> None:
    write_tokenizer(tmp_path)
    file = tmp_path / "tokenizer.json"
    library = tokenizers.Tokenizer.from_file(str(file))
    library.model.save(str(tmp_path))  # vocab.json and merges.txt
    file.unlink()
    write_json(tmp_path / "tokenizer_config.json", {"tokenizer_class": "GPT2Tokenizer"})
    write_json(tmp_path / "config.json", {"model_type": "gpt2", "architectures": ["LlamaForCausalLM"]})
    ours = Tokenizer.from_checkpoint(Checkpoint.open(str(tmp_path)))
    assert ours.encode("Hello world") == library.encode("Hello world", add_special_tokens=False).ids
    (tmp_path / "vocab.json").unlink()
    (tmp_path / "merges.txt").unlink()
    with pytest.raises(CheckpointError, match="no tokenizer"):
        Tokenizer.from_checkpoint(Checkpoint.open(str(tmp_path)))


def test_a_tokenizer_of_sentencepiece_alone_is_converted(tmp_path: Path) -> None:
    """As older Llamas have it (Vicuna): no tokenizer.json, its special tokens spelt out in the settings."""
    words = ["the cat sat on the mat", "a cat and a dog"]
    writer = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(words),
        model_writer=writer,
        model_type="bpe",
        vocab_size=290,
        byte_fallback=True,
        normalization_rule_name="identity",
        minloglevel=2,
    )
    (tmp_path / "tokenizer.model").write_bytes(writer.getvalue())
    write_json(tmp_path / "config.json", {"model_type": "llama", "architectures": ["LlamaForCausalLM"]})
    named = {
        f"{name}_token": {"__type": "AddedToken", "content": text, "normalized": False}
        for name, text in (("bos", "<s>"), ("eos", "</s>"))
    }
    write_json(
        tmp_path / "tokenizer_config.json", {"tokenizer_class": "LlamaTokenizer", "legacy": False, **named}
    )
    ours = Tokenizer.from_checkpoint(Checkpoint.open(str(tmp_path)))
    library = sentencepiece.SentencePieceProcessor(model_proto=writer.getvalue())
    assert ours.encode("the cat, ü") == library.encode("the cat, ü")
    assert (ours.bos_token, ours.eos_token) == ("<s>", "</s>")


class PanicException(BaseException):
    """As Rust's panics are seen from Python: by name only."""


@pytest.mark.parametrize(
    ("raised", "expected"),
    [(PanicException("retry-limit-in-match over"), Untokenizable), (KeyboardInterrupt(), KeyboardInterrupt)],
)
@pytest.mark.parametrize("length", [1, 1 << 20])
def test_a_panic_of_the_library_is_a_fault_of_the_text(
    raised: BaseException, expected: type[BaseException], length: int
) -> None:
    class Panics:
        def encode(self, *_: object, **__: object) -> None:
            raise raised

        encode_batch_fast = encode

    with pytest.raises(expected) as caught:
        _encode(Panics(), "x" * length, False)  # type: ignore[arg-type]
    assert "retry" not in str(caught.value)
