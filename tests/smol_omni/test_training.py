"""The parts of the training that can be wrong without anyone noticing."""

import random

import pytest
import torch

from tools.smol_omni import held_out
from tools.smol_omni.answers import is_addressed
from tools.smol_omni.match import mean_at, unit
from tools.smol_omni.names import listened, published
from tools.smol_omni.network import nearness
from tools.smol_omni.score import error_rate, errors
from tools.smol_omni.sentences import SLOTS, compose, compose_talk
from tools.smol_omni.teach import BATCH, draw
from tools.smol_omni.train import guide, pull_of, reluctant


def test_the_nearest_row_scores_highest() -> None:
    rows = torch.randn(20, 8, generator=torch.manual_seed(0)) * torch.arange(1, 21)[:, None]
    outputs = rows + 0.01
    assert nearness(outputs, rows).argmax(1).tolist() == list(range(20))


@pytest.mark.parametrize(
    ("said", "heard", "expected"),
    [("a b c", "a b c", 0), ("a b c", "a c", 1), ("a b", "a x b y", 2), ("a b", "b a", 2), ("a", "", 1)],
)
def test_errors_are_the_fewest_changes(said: str, heard: str, expected: int) -> None:
    assert errors(said.split(), heard.split()) == expected


def test_case_and_stops_are_no_errors() -> None:
    assert error_rate([("Stop the music.", "stop, the music"), ("One two", "One")]) == 1 / 5


def test_the_guide_wants_tokens_in_their_order() -> None:
    shares = torch.full((8, 3), -9.0)
    shares[:4, 1] = shares[4:, 2] = -0.1
    assert guide(shares, torch.tensor([1, 2])) < 1 < guide(shares, torch.tensor([2, 1]))


def test_words_are_pulled_as_hard_as_nothing_however_rare() -> None:
    squares = torch.tensor([1.0, 3.0, 2.0, 9.0])
    nothing = torch.tensor([True, True, True, False])
    assert pull_of(squares, nothing) == 2 + 9
    assert pull_of(squares[:3], nothing[:3]) == 2


def test_sentences_have_no_empty_slots_and_begin_large() -> None:
    rng = random.Random(0)
    made = [compose(rng) for _ in range(500)]
    assert not any("{" in text or not text[0].isupper() for text in made)
    assert len(set(made)) > 400
    assert all(SLOTS.values())


def test_what_the_evaluation_asks_is_not_taught() -> None:
    rng = random.Random(0)
    made = {compose_talk(rng) for _ in range(4000)}
    assert len(made) > 1000
    assert not made & held_out.QUESTIONS.keys()
    assert not any(is_addressed(question) for question in held_out.QUESTIONS)
    assert not is_addressed("The uncle of Spain sold our ring today.")


def test_only_nothing_is_reluctant() -> None:
    near = torch.zeros(2, 3, 4)
    assert (reluctant(near) - near).sum(-1).unique().item() > 0
    assert torch.equal(reluctant(near)[..., 1:], near[..., 1:])


def test_differences_are_of_direction_and_only_where_asked() -> None:
    hidden = torch.randn(2, 3, 8, generator=torch.manual_seed(0))
    assert torch.allclose(unit(hidden), unit(5 * hidden))
    values, places = torch.tensor([[1.0, 2.0, 9.0]]), torch.tensor([[True, True, False]])
    assert mean_at(values, places) == 1.5
    assert mean_at(values, places & False) == 0


def test_a_batch_is_of_sounds_of_about_one_length() -> None:
    asked = [(str(n), torch.zeros(n).numpy()) for n in range(200)]
    lengths = sorted(len(heard) for _, heard in draw(asked, random.Random(0)))
    assert len(set(lengths)) == BATCH
    assert lengths[-1] - lengths[0] < 4 * BATCH


def test_layers_keep_their_places() -> None:
    assert published("layers.0.fc1.bias") == "audio_tower.layers.4.fc1.bias"
    assert published("proj.weight") == "audio_tower.proj.weight"
    assert listened(published("layers.1.fc1.bias")) == "layers.1.fc1.bias"
