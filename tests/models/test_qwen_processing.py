"""Preparation and layout without weights, against transformers' own processors."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from transformers import WhisperFeatureExtractor
from transformers.models.qwen2_5_omni.processing_qwen2_5_omni import _get_feat_extract_output_lengths
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil, smart_resize

from kvcache.keys import MediaKey
from kvcache.spans import MediaSpan
from models.checkpoint import Checkpoint
from models.processing.base import MediaError, MediaLayout
from models.processing.image import LOW_DETAIL_PIXELS, PatchedImages
from models.processing.mel_sounds import MelSounds
from models.processing.qwen2_5_omni import Qwen2_5OmniProcessing
from models.processing.qwen2_vl import Qwen2VLProcessing, mrope_positions
from tests import checkpoints_qwen as tiny

SIZES = [
    (448, 448),
    (1, 1),
    (1, 150),
    (150, 1),
    (26, 28),
    (17, 134),
    (640, 480),
    (1000, 37),
    (61, 200),
    (29, 2900),
]
SETTINGS = {
    "published": tiny.IMAGES,
    "larger patches": tiny.LARGER_PATCHES,
    "nothing set": {},
    "new names": {"size": {"shortest_edge": 4096, "longest_edge": 65536}},
    "old names": {"min_pixels": 65536, "max_pixels": 131072, "size": {"shortest_edge": 1, "longest_edge": 2}},
    "others": {
        "patch_size": 16,
        "merge_size": 1,
        "temporal_patch_size": 1,
        "resample": 2,
        "rescale_factor": 1 / 127.5,
        "image_mean": [0.5, 0.4, 0.3],
        "image_std": [0.5, 0.6, 0.7],
    },
    "not normalised": {"do_normalize": False},
}


EXTRACTOR_ERROR = 3e-5
"""The reference transforms in float32 and is itself up to 2e-5 off what float64 gives (ours: 2e-7)."""


def noise(width: int, height: int, mode: str = "RGB") -> Image.Image:
    values = np.random.default_rng(width * 7 + height).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(values).convert(mode)


def as_published(images: PatchedImages, patches: np.ndarray) -> np.ndarray:
    """Values of bytes, channels first, frames alike: float32 [patches, 3 * frames * patch * patch]."""
    pixels = images.values[patches.reshape(len(patches), -1, 3), np.arange(3)].swapaxes(1, 2)
    return np.repeat(pixels[:, :, None], images.temporal_patch_size, axis=2).reshape(len(patches), -1)


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize(("width", "height"), SIZES)
def test_pictures_equal_the_reference_exactly(settings: dict, width: int, height: int) -> None:
    own = PatchedImages(settings)
    expected = Qwen2VLImageProcessorPil(**settings)(noise(width, height), return_tensors="np")
    patches = own.prepare(noise(width, height))["patches"]
    assert patches.dtype == np.uint8
    pixels = as_published(own, patches)
    assert pixels.dtype == expected["pixel_values"].dtype
    np.testing.assert_array_equal(pixels, expected["pixel_values"])
    layout = own.layout(width, height)
    assert layout.grid == tuple(expected["image_grid_thw"][0])
    assert layout.num_tokens * own.merge_size**2 == len(pixels)


def test_other_modes_become_rgb() -> None:
    own = PatchedImages({})
    gray = own.prepare(noise(60, 60, "L"))["patches"]
    np.testing.assert_array_equal(gray, own.prepare(noise(60, 60, "L").convert("RGB"))["patches"])


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_values_are_a_straight_line(settings: dict) -> None:
    values = PatchedImages(settings).values
    line = np.linspace(values[0], values[-1], 256, dtype=np.float64)
    np.testing.assert_allclose(values, line, rtol=1e-6, atol=1e-6)


@given(st.integers(1, 30_000), st.integers(1, 30_000))
def test_any_size_has_a_right_layout_or_a_clear_error(width: int, height: int) -> None:
    own = PatchedImages(tiny.IMAGES)
    try:
        rows, columns = smart_resize(height, width, 28, 3136, 12845056)
    except ValueError:
        with pytest.raises(MediaError, match="too narrow") as error:
            own.layout(width, height)
        assert error.value.code == "image_too_small"
        return
    assert own.layout(width, height) == MediaLayout(rows * columns // 784, (1, rows // 14, columns // 14))


@pytest.mark.parametrize(("width", "height"), [(0, 10), (10, 0), (10000, 1), (1, 10000), (1, 201)])
def test_what_has_no_layout_is_refused(width: int, height: int) -> None:
    with pytest.raises(MediaError) as error:
        PatchedImages({}).layout(width, height)
    assert error.value.code == "image_too_small"


def test_low_detail_keeps_fewer_pixels() -> None:
    own = PatchedImages(tiny.IMAGES)
    low = own.layout(4000, 3000, "detail=low")
    assert low.grid[1] * low.grid[2] * 14**2 <= LOW_DETAIL_PIXELS
    assert low.num_tokens * 28**2 > LOW_DETAIL_PIXELS * 0.8
    assert (
        len(own.prepare(noise(4000, 30), "detail=low")["patches"])
        == own.layout(4000, 30, "detail=low").num_tokens * 4
    )
    assert own.layout(300, 200, "detail=low") == own.layout(300, 200)
    with pytest.raises(ValueError, match="detail=medium"):
        own.layout(4000, 3000, "detail=medium")


def test_low_detail_never_asks_for_more_than_the_checkpoint_allows() -> None:
    small = PatchedImages({"min_pixels": 3136, "max_pixels": 28 * 28 * 16})
    assert small.layout(4000, 3000, "detail=low") == small.layout(4000, 3000)
    large = PatchedImages({"min_pixels": LOW_DETAIL_PIXELS * 4, "max_pixels": LOW_DETAIL_PIXELS * 8})
    assert large.layout(100, 100, "detail=low").num_tokens * 28**2 <= LOW_DETAIL_PIXELS * 1.2


@pytest.fixture(scope="module")
def omni(tmp_path_factory: pytest.TempPathFactory) -> Qwen2_5OmniProcessing:
    path = tiny.tiny_qwen2_5_omni(tmp_path_factory.mktemp("omni"))
    return Qwen2_5OmniProcessing.from_checkpoint(Checkpoint.open(str(path)))


def short_extractor(seconds: int) -> tuple[Qwen2_5OmniProcessing, WhisperFeatureExtractor]:
    settings = {**tiny.SOUNDS, "chunk_length": seconds}
    names, ids = {"image": "<|IMAGE|>", "audio": "<|AUDIO|>"}, {"image": 1, "audio": 2}
    own = Qwen2_5OmniProcessing(PatchedImages({}), MelSounds(settings), names, ids)
    return own, WhisperFeatureExtractor(feature_size=128, chunk_length=seconds)


# Just enough, whole and broken hops, around half a window before the extractor's end, and at its end.
@pytest.mark.parametrize("num_samples", [321, 480, 1600, 16001, 79_600, 79_799, 79_841, 79_999, 80_000])
@pytest.mark.parametrize("loudness", [0.0, 1e-4, 0.3])
def test_sounds_equal_the_reference(num_samples: int, loudness: float) -> None:
    own, extractor = short_extractor(5)
    samples = np.random.default_rng(num_samples).standard_normal(num_samples).astype(np.float32) * loudness
    samples[-1] = min(1.0, loudness * 10)
    out = extractor(samples, sampling_rate=16000, return_attention_mask=True, return_tensors="np")
    num_frames = int(out["attention_mask"].sum())
    features = own.prepare_audio(samples)["input_features"]
    assert features.dtype == np.float32
    np.testing.assert_allclose(features, out["input_features"][0, :, :num_frames], atol=EXTRACTOR_ERROR)
    assert own.audio_layout(num_samples).num_tokens == _get_feat_extract_output_lengths(num_frames)


def test_a_sound_has_a_length_that_the_model_takes(omni: Qwen2_5OmniProcessing) -> None:
    assert omni.audio_layout(321) == MediaLayout(1)
    assert omni.audio_layout(300 * 16000) == MediaLayout(7500)
    for num_samples, code in [
        (0, "audio_too_short"),
        (1, "audio_too_short"),
        (320, "audio_too_short"),
        (300 * 16000 + 1, "audio_too_long"),
    ]:
        with pytest.raises(MediaError) as error:
            omni.audio_layout(num_samples)
        assert error.value.code == code


def test_markers_and_placeholders_are_the_checkpoints_own(
    omni: Qwen2_5OmniProcessing, tmp_path: Path
) -> None:
    assert omni.kinds == {"image", "audio"}
    assert (omni.marker("image"), omni.marker("audio"), omni.sampling_rate) == (
        "<|IMAGE|>",
        "<|AUDIO|>",
        16000,
    )
    path = tiny.tiny_qwen2_vl(tmp_path)
    added = json.loads((path / "tokenizer.json").read_text())["added_tokens"]
    ids = {token["content"]: token["id"] for token in added}
    vl = Qwen2VLProcessing.from_checkpoint(Checkpoint.open(str(path)))
    assert vl.placeholder("image", MediaLayout(3)) == ([ids[vl.marker("image")]] * 3, [(0, 3)])
    image, audio = (omni.placeholders[kind].token_id for kind in ("image", "audio"))
    assert omni.placeholder("audio", MediaLayout(2)) == ([audio] * 2, [(0, 2)])
    assert image != audio
    for refused in (lambda: vl.marker("audio"), lambda: vl.placeholder("audio", MediaLayout(1))):
        with pytest.raises(ValueError, match="audio"):
            refused()
    for refused in (lambda: vl.audio_layout(16000), lambda: vl.prepare_audio(np.zeros(16000, np.float32))):
        with pytest.raises(MediaError, match="no audio"):
            refused()


def test_the_processors_own_file_comes_first(tmp_path: Path) -> None:
    """transformers 5 saves all processors into one file, and reads that one first."""
    path = tiny.tiny_qwen2_5_omni(tmp_path)
    nested = {
        "image_processor": {**tiny.IMAGES, "patch_size": 16},
        "feature_extractor": {**tiny.SOUNDS, "chunk_length": 20},
    }
    (path / "processor_config.json").write_text(json.dumps(nested))
    own = Qwen2_5OmniProcessing.from_checkpoint(Checkpoint.open(str(path)))
    assert own.images.patch_size == 16
    with pytest.raises(MediaError, match="20 seconds"):
        own.audio_layout(20 * 16000 + 1)


def test_a_fingerprint_tells_apart_what_gives_other_arrays() -> None:
    processors = [
        Qwen2VLProcessing(PatchedImages(settings), "<|image_pad|>", 5) for settings in SETTINGS.values()
    ]
    processors += [short_extractor(seconds)[0] for seconds in (5, 6)]
    prints = [processor.fingerprint for processor in processors]
    assert len(set(prints)) == len(prints)
    assert all("pillow" in text and "numpy" in text for text in prints)
    assert Qwen2VLProcessing(PatchedImages({}), "x", 5).fingerprint in prints


def test_positions_of_many_pictures_take_no_time_and_any_order() -> None:
    layout = MediaLayout(6, (1, 4, 6))
    spans = [MediaSpan(10 * i, 10 * i + 6, MediaKey(b"")) for i in range(300)]
    items = [("image", layout)] * 300
    table = mrope_positions(3001, spans, items, 2)
    assert table.ids[:, :7].tolist() == [
        [0, 0, 0, 0, 0, 0, 3],
        [0, 0, 0, 1, 1, 1, 3],
        [0, 1, 2, 0, 1, 2, 3],
    ]
    assert table.next_position == 300 * (3 + 4) + 1
    backwards = mrope_positions(3001, spans[::-1], items, 2)
    np.testing.assert_array_equal(backwards.ids, table.ids)
