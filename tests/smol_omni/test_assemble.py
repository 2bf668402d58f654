"""What is put together computes what its parts compute."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import (
    AutoTokenizer,
    Qwen2_5OmniThinkerForConditionalGeneration,
    WhisperConfig,
    WhisperModel,
)

from models.smol_omni.adapters import FILE, bfloat16, read_adapters
from models.smol_omni.assemble import assemble, num_own_layers
from models.smol_omni.hearing import INNER, WIDTH, encoder_tensors
from models.smol_omni.tokens import MEDIA
from tests.smol_omni.stand_ins import TEXT_WIDTH, hearing_file, language_file, llama, variables

LLAMA = llama(torch.manual_seed(3))
HEARD = variables(np.random.default_rng(4))
PROJECTION = np.random.default_rng(5).normal(0, 0.1, (TEXT_WIDTH, WIDTH))
TRAINED = {
    "audio_tower.proj.weight": bfloat16(PROJECTION),
    "audio_tower.proj.bias": bfloat16(np.zeros(TEXT_WIDTH)),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("smol-omni")
    assemble(language_file(LLAMA), hearing_file(HEARD), made, TRAINED)
    return made


@pytest.fixture(scope="module")
def thinker(folder: Path) -> Qwen2_5OmniThinkerForConditionalGeneration:
    model, loading = Qwen2_5OmniThinkerForConditionalGeneration.from_pretrained(
        folder, dtype=torch.float32, output_loading_info=True
    )
    assert not any(loading[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    return model.eval()


@torch.inference_mode()
def test_text_is_the_language_models_own(thinker: Qwen2_5OmniThinkerForConditionalGeneration) -> None:
    ids = torch.tensor([[1, 17, 20, 26, 29, 2, 0, 18]])
    assert torch.equal(thinker(input_ids=ids).logits, LLAMA(ids).logits)


@torch.inference_mode()
def test_hearing_is_whispers_own(thinker: Qwen2_5OmniThinkerForConditionalGeneration) -> None:
    sizes = {f"{part}_{name}": value for part in ("encoder", "decoder")
             for name, value in (("layers", 4), ("attention_heads", 6), ("ffn_dim", INNER))}  # fmt: skip
    whisper = WhisperModel(WhisperConfig(d_model=WIDTH, num_mel_bins=80, **sizes)).encoder.eval()
    tensors = encoder_tensors({name: value.astype(np.float32) for name, value in HEARD.items()})
    state = {name.replace("ln_post", "layer_norm"): rounded(value) for name, value in tensors.items()}
    assert whisper.load_state_dict(state, strict=False).missing_keys == ["embed_positions.weight"]
    seen: list[torch.Tensor] = []
    whisper.layer_norm.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    mel = torch.randn(1, 80, 3000, generator=torch.manual_seed(6))
    whisper(mel)
    pooled = whisper.layer_norm(seen[0][0].unflatten(0, (-1, 2)).mean(1))
    expected = pooled @ rounded(PROJECTION).T
    got = thinker.model.audio_tower(mel[0], feature_lens=torch.tensor([3000])).last_hidden_state
    assert (got - expected).abs().max() <= 1e-4 * expected.abs().max()


def rounded(values: np.ndarray) -> torch.Tensor:
    return torch.tensor(values).bfloat16().float()


def test_media_take_the_place_of_spare_tokens(folder: Path) -> None:
    words = AutoTokenizer.from_pretrained(folder)
    assert words.convert_ids_to_tokens(list(MEDIA)) == list(MEDIA.values())
    assert words("user 12<|AUDIO|><|im_end|>").input_ids == [26, 23, 27, 28, 3, 2]
    assert words.decode([26, 23, 27]) == "user 1"
    assert json.loads((folder / "config.json").read_text())["thinker_config"]["user_token_id"] == 26


def test_what_ships_fits_and_is_small() -> None:
    trained = read_adapters()
    assert FILE.stat().st_size <= 12_000_000
    assert trained["audio_tower.proj.weight"].shape == (576, WIDTH)
    assert 0 <= num_own_layers(trained) <= 2
