"""Qwen2-Audio's half of sound against transformers on the same weights, with its own feature extractor."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from models.checkpoint import Checkpoint
from models.families.qwen2_audio import Qwen2AudioModel
from models.interface import EncoderInput
from models.loader import load_model
from models.processing.base import MediaError, MediaLayout
from models.processing.qwen2_audio import Qwen2AudioProcessing
from tests.checkpoints_qwen_audio import SECONDS, tiny_qwen2_audio
from tests.proof.reference import Reference, Sound

RATE = 16000
END = SECONDS * RATE


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_qwen2_audio(tmp_path_factory.mktemp("qwen2_audio"))


@pytest.fixture(scope="module")
def reference(directory: Path) -> Reference:
    return Reference(directory)


def noise(num_samples: int) -> np.ndarray:
    return 0.1 * np.random.default_rng(num_samples).standard_normal(num_samples).astype(np.float32)


def load(directory: Path, dtype: str = "float32") -> Qwen2AudioModel:
    model = load_model(Checkpoint.open(str(directory)), dtype=dtype)
    assert isinstance(model, Qwen2AudioModel)
    return model


def encoded(model: Qwen2AudioModel, samples: np.ndarray) -> torch.Tensor:
    layout = model.processing.audio_layout(len(samples))
    arrays = {name: torch.from_numpy(a) for name, a in model.processing.prepare_audio(samples).items()}
    (rows,) = model.encode("audio", [EncoderInput(arrays, layout)])
    assert rows.shape == (layout.num_tokens, model.encoding_width)
    return rows


@torch.no_grad()
def expected(reference: Reference, samples: np.ndarray) -> torch.Tensor:
    """What the language model gets in place of the placeholders."""
    seen: list[torch.Tensor] = []
    language = reference.model.model.language_model
    hook = language.register_forward_pre_hook(
        lambda _, __, given: seen.append(given["inputs_embeds"]), with_kwargs=True
    )
    ids, inputs = reference.ids_and_inputs([1, Sound(samples), 2])
    tokens = torch.tensor([ids])
    reference.model(input_ids=tokens, attention_mask=torch.ones_like(tokens), **inputs)
    hook.remove()
    return seen[0][0, 1:-1]


# One row that is a token, and one that is left over; whole and broken hops; up to the extractor's end.
@pytest.mark.parametrize("num_samples", [321, 640, 801, 960, 16001, END - 481, END - 320, END - 160, END])
def test_encodings_equal_the_reference(num_samples: int, directory: Path, reference: Reference) -> None:
    samples = noise(num_samples)
    actual, wanted = encoded(load(directory), samples), expected(reference, samples)
    torch.testing.assert_close(actual, wanted, atol=1e-4, rtol=1e-4)


def test_what_is_left_of_a_sound_moves_its_last_token(directory: Path) -> None:
    """The frames after the last whole token are heard, as in the reference."""
    model, samples = load(directory), noise(RATE)
    louder = samples.copy()
    louder[-100:] *= 8
    assert (encoded(model, samples)[-1] - encoded(model, louder)[-1]).abs().max() > 1e-2


def test_a_sound_has_a_length_that_the_model_takes(directory: Path) -> None:
    processing = Qwen2AudioProcessing.from_checkpoint(Checkpoint.open(str(directory)))
    assert processing.audio_layout(321) == MediaLayout(1)
    assert processing.audio_layout(END) == MediaLayout(25 * SECONDS)
    for num_samples, code in [(0, "audio_too_short"), (320, "audio_too_short"), (END + 1, "audio_too_long")]:
        with pytest.raises(MediaError) as error:
            processing.audio_layout(num_samples)
        assert error.value.code == code


def test_the_modules_own_names_load_too(directory: Path, reference: Reference, tmp_path: Path) -> None:
    for file in directory.glob("*.json"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    own = reference.model.state_dict()
    assert own.keys().isdisjoint(load_file(directory / "model.safetensors"))
    save_file(own, tmp_path / "model.safetensors")
    one, other = load(directory), load(tmp_path)
    assert torch.equal(encoded(one, noise(RATE)), encoded(other, noise(RATE)))
    assert isinstance(one.decoder.head, torch.Tensor)
    assert isinstance(other.decoder.head, torch.Tensor)
    assert torch.equal(one.decoder.head, other.decoder.head)
    assert torch.equal(one.decoder.embedding, other.decoder.embedding)


def test_in_bfloat16(directory: Path) -> None:
    exact, rounded = encoded(load(directory), noise(RATE)), encoded(load(directory, "bfloat16"), noise(RATE))
    assert rounded.dtype is torch.bfloat16
    assert (rounded.float() - exact).norm() < 0.05 * exact.norm()
