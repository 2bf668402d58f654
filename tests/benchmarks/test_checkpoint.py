"""Made checkpoints are complete in their family's layout, and their answers never end of themselves."""

import json

import jinja2
import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer

from benchmarks.checkpoint import build
from benchmarks.checkpoint_layouts import LAYOUTS, Scale
from models.checkpoint import Checkpoint
from models.loader import load_model
from models.registry import load_processing

TINY = Scale(64, 2, 4, 2, 96, 400, 64, 2)


@pytest.fixture(scope="module", params=LAYOUTS)
def made(request, tmp_path_factory):
    layout = LAYOUTS[request.param]
    directory = tmp_path_factory.mktemp(request.param)
    build(TINY, directory, layout)
    return layout, directory


def test_our_models_take_every_weight(made):
    _, directory = made
    model = load_model(Checkpoint.open(str(directory)))
    assert model.dtype == torch.bfloat16


def test_template_writes_one_placeholder_for_each_medium(made):
    layout, directory = made
    checkpoint = Checkpoint.open(str(directory))
    processing = load_processing(checkpoint)
    tokenizer = Tokenizer.from_file(str(checkpoint.tokenizer_file))
    template = jinja2.Template(checkpoint.chat_template or "")
    assert layout.part_texts.keys() == processing.kinds
    for kind in processing.kinds:
        text = template.render(messages=[{"role": "user", "content": [{"type": kind}]}])
        assert processing.marker(kind) in tokenizer.encode(text).tokens


def test_answers_are_plain_words_without_an_end(made):
    layout, directory = made
    tokens = json.loads((directory / "tokenizer.json").read_text())
    ids = {entry["content"]: entry["id"] for entry in tokens["added_tokens"]}
    assert ids.keys() == set(layout.special_tokens)
    head = load_file(directory / "model.safetensors")[f"{layout.prefix}lm_head.weight"]
    can_win = head.any(dim=1)
    assert not can_win[list(ids.values())].any()
    words = [token.strip("Ġ") for token, index in tokens["model"]["vocab"].items() if can_win[index]]
    assert len(words) > 50
    assert all(word.isascii() and word.isalpha() for word in words)
