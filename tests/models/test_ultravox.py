"""Ultravox against a plain composition of transformers' Whisper encoder, published projector and Llama."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, WhisperFeatureExtractor, WhisperForConditionalGeneration

from models.checkpoint import Checkpoint
from models.families.ultravox import UltravoxModel
from models.interface import EncoderInput, ForwardBatch, MediaRows
from models.loader import load_model
from models.processing.base import MediaError
from models.registry import load_processing
from tests.checkpoints import tiny_ultravox
from tests.checkpoints_gemma import tiny_gemma3
from tests.models.dense_attention import DenseAttention

CONTEXT = 3000
PREFIX, SUFFIX = [5, 6, 7], [8, 9]


def sound(seconds: float) -> np.ndarray:
    rng = np.random.default_rng(round(10 * seconds))
    time = np.arange(round(seconds * 16000)) / 16000
    return (
        0.2 * np.sin(2 * np.pi * 300 * time * (1 + time / 50)) + 0.05 * rng.standard_normal(len(time))
    ).astype(np.float32)


class Reference:
    """The published model from transformers' parts: its processor's pieces, modified Whisper, projector."""

    def __init__(self, directory: Path) -> None:
        self.whisper = WhisperForConditionalGeneration.from_pretrained(
            directory / "whisper"
        ).model.encoder.eval()
        self.language = AutoModelForCausalLM.from_pretrained(directory / "language").eval()
        self.projector = {
            name.removeprefix("multi_modal_projector."): tensor
            for name, tensor in load_file(directory / "model.safetensors").items()
        }
        self.extractor = WhisperFeatureExtractor(feature_size=80)

    @torch.inference_mode()
    def encode(self, samples: np.ndarray) -> torch.Tensor:
        made = self.extractor(
            samples,
            sampling_rate=16000,
            padding="longest",
            pad_to_multiple_of=160,
            truncation=False,
            return_attention_mask=True,
            return_tensors="pt",
        )
        frames = int(made.attention_mask.sum())
        tokens = []
        for start in range(0, frames, CONTEXT):
            piece = made.input_features[..., start : start + CONTEXT]
            length = min(frames - start, CONTEXT)
            if start:
                piece = F.pad(piece, (0, CONTEXT - piece.shape[-1]))
            num_tokens = -(-length // 16)
            tokens.append(self._project(self._whisper(piece, length))[0, :num_tokens])
        return torch.cat(tokens)

    def _whisper(self, features: torch.Tensor, length: int) -> torch.Tensor:
        x = F.gelu(self.whisper.conv1(features))
        x = F.gelu(self.whisper.conv2(x)).permute(0, 2, 1)
        x = x + self.whisper.embed_positions.weight[: x.shape[1]]
        seen = torch.arange(x.shape[1]) < (length - 1) // 2 + 1
        mask = torch.where(seen, 0.0, torch.finfo(torch.float32).min)[None, None, None].expand(
            1, 1, x.shape[1], -1
        )
        for layer in self.whisper.layers:
            x = layer(x, mask)
        return self.whisper.layer_norm(x)

    def _project(self, x: torch.Tensor) -> torch.Tensor:
        p = self.projector
        x = F.pad(x, (0, 0, 0, -x.shape[1] % 8)).reshape(1, -1, 8 * 32)
        value, gate = F.linear(F.rms_norm(x, (256,), p["ln_pre.weight"], 1e-6), p["linear_1.weight"]).chunk(
            2, -1
        )
        x = F.silu(gate) * value
        if "ln_mid.weight" in p:
            return F.linear(F.rms_norm(x, (64,), p["ln_mid.weight"], 1e-6), p["linear_2.weight"])
        return F.rms_norm(F.linear(x, p["linear_2.weight"]), (64,), p["ln_post.weight"], 1e-6)

    @torch.inference_mode()
    def logits(self, samples: np.ndarray) -> torch.Tensor:
        embed = self.language.get_input_embeddings()
        parts = [embed(torch.tensor(PREFIX)), self.encode(samples), embed(torch.tensor(SUFFIX))]
        return self.language(inputs_embeds=torch.cat(parts)[None]).logits[0]


def load(directory: Path, **settings: str) -> UltravoxModel:
    model = load_model(Checkpoint.open(str(directory)), **settings)  # pyright: ignore[reportArgumentType]
    assert isinstance(model, UltravoxModel)
    return model


def encode(model: UltravoxModel, samples: np.ndarray) -> torch.Tensor:
    layout = model.processing.audio_layout(len(samples))
    arrays = {name: torch.from_numpy(a) for name, a in model.processing.prepare_audio(samples).items()}
    (encoding,) = model.encode("audio", [EncoderInput(arrays, layout)])
    assert encoding.shape == (layout.num_tokens, model.encoding_width)
    return encoding


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_ultravox(tmp_path_factory.mktemp("ultravox"))


@pytest.mark.parametrize("seconds", [0.03, 0.99, 1.0, 29.9, 30.0, 30.1, 31.03, 61.0])
def test_encodings_equal_the_published_composition(seconds: float, directory: Path) -> None:
    samples = sound(seconds)
    expected = Reference(directory).encode(samples)
    assert expected.std() > 0.1
    torch.testing.assert_close(encode(load(directory), samples), expected, atol=1e-5, rtol=1e-5)


def test_logits_with_a_sound_in_the_middle(directory: Path) -> None:
    check_logits(directory)


def test_a_language_model_that_sees_too_is_read_without_its_tower(tmp_path: Path) -> None:
    """As published with Gemma 3, whose own checkpoint nests the language model."""
    directory = tiny_ultravox(tmp_path)
    shutil.rmtree(directory / "language")
    (directory / "language").mkdir()
    tiny_gemma3(directory / "language")
    check_logits(directory)


def check_logits(directory: Path) -> None:
    samples = sound(2.5)
    model = load(directory)
    encoding = encode(model, samples)
    placeholder = model.processing.placeholder("audio", model.processing.audio_layout(len(samples)))
    ids = torch.tensor([*PREFIX, *placeholder.ids, *SUFFIX])
    media = [MediaRows(len(PREFIX), len(PREFIX) + len(encoding), encoding)]
    positions = torch.from_numpy(model.processing.positions(len(ids), [], []).ids)
    hidden = model.forward(ForwardBatch(ids, positions, media), DenseAttention(model.attention))
    torch.testing.assert_close(
        model.logits(hidden), Reference(directory).logits(samples), atol=1e-5, rtol=1e-5
    )


@pytest.mark.parametrize("norm_between", [False, True])
@pytest.mark.parametrize("merged", [False, True])
def test_every_published_arrangement(
    norm_between: bool, merged: bool, directory: Path, tmp_path: Path
) -> None:
    samples = sound(1.3)
    separate = tiny_ultravox(tmp_path / "separate", norm_between=norm_between)
    made = tiny_ultravox(tmp_path / "made", norm_between=norm_between, merged=merged)
    torch.testing.assert_close(
        encode(load(made), samples), Reference(separate).encode(samples), atol=1e-5, rtol=1e-5
    )


@pytest.mark.parametrize(
    ("num_samples", "tokens"),
    [
        (400, 1),
        (2560, 1),
        (2561, 2),
        (16000, 7),
        (480000, 188),
        (480001, 189),
        (482560, 189),
        (482561, 190),
        (960001, 377),
    ],
)
def test_tokens_for_each_length(num_samples: int, tokens: int, directory: Path) -> None:
    processing = load_processing(Checkpoint.open(str(directory)))
    layout = processing.audio_layout(num_samples)
    assert layout.num_tokens == tokens
    placeholder = processing.placeholder("audio", layout)
    assert placeholder.ids == [302] * tokens
    assert placeholder.runs == [(0, tokens)]


def test_what_is_too_short_is_refused(directory: Path) -> None:
    processing = load_processing(Checkpoint.open(str(directory)))
    with pytest.raises(MediaError, match="25 ms") as caught:
        processing.audio_layout(399)
    assert caught.value.code == "audio_too_short"


def test_only_sound_is_taken(directory: Path) -> None:
    processing = load_processing(Checkpoint.open(str(directory)))
    assert processing.kinds == {"audio"}
    assert processing.marker("audio") == "<|audio|>"
    assert processing.sampling_rate == 16000
    with pytest.raises(MediaError):
        processing.image_layout(100, 100)


def test_trained_tensors_of_its_own_win_over_those_of_the_checkpoint_it_names(tmp_path: Path) -> None:
    directory = tiny_ultravox(tmp_path)
    before = encode(load(directory), sound(1))
    tensors = load_file(directory / "model.safetensors")
    tensors["audio_tower.layers.1.fc2.bias"] = torch.full((32,), 3.0)
    save_file(tensors, directory / "model.safetensors")
    assert load(directory).encoder.blocks[1].down.bias.unique().tolist() == [3.0]
    assert not torch.allclose(encode(load(directory), sound(1)), before, atol=0.01)


def test_random_weights_need_no_other_checkpoint_s_weights(tmp_path: Path) -> None:
    directory = tiny_ultravox(tmp_path)
    for path in directory.rglob("*.safetensors"):
        path.unlink()
    first, second = (encode(load(directory, load_format="random"), sound(1)) for _ in range(2))
    assert first.isfinite().all()
    assert torch.equal(first, second)
