"""Log-mel frames against transformers' WhisperFeatureExtractor, its numpy and its torch path."""

import numpy as np
import pytest
from transformers import WhisperFeatureExtractor

from models.processing.audio_mel import LogMel


def sound(seconds: float, seed: int = 0) -> np.ndarray:
    """Three tones that come and go, and a little noise."""
    rng = np.random.default_rng(seed)
    time = np.arange(round(seconds * 16000)) / 16000
    tones = sum(
        np.sin(2 * np.pi * hz * time) * np.sin(2 * np.pi * rng.uniform(0.5, 3) * time)
        for hz in (220, 880, 3100)
    )
    return (0.1 * tones + 0.01 * rng.standard_normal(len(time))).astype(np.float32)


@pytest.mark.parametrize("num_mels", [80, 128])
@pytest.mark.parametrize("seconds", [0.1, 1.0, 2.345])
def test_equals_both_paths_of_transformers(num_mels: int, seconds: float) -> None:
    extractor = WhisperFeatureExtractor(feature_size=num_mels)
    samples = sound(seconds)
    ours = LogMel(num_mels=num_mels).features(samples)
    exact = extractor._np_extract_fbank_features(samples[None], "cpu")[0]
    fast = extractor._torch_extract_fbank_features(samples)
    assert ours.dtype == np.float32
    assert ours.shape == (num_mels, len(samples) // 160)
    np.testing.assert_allclose(ours, exact, atol=1e-6)
    # The torch path works in float32 and strays from the other by more than 1e-5 where a band is faint.
    np.testing.assert_allclose(ours, fast, atol=max(1e-5, np.abs(fast - exact).max() + 1e-6))


def test_padding_is_silence_before_the_transform() -> None:
    samples = sound(1.5)
    reference = WhisperFeatureExtractor()(samples, sampling_rate=16000, return_tensors="np").input_features[0]
    np.testing.assert_allclose(LogMel().features(samples, pad_to=30 * 16000), reference, atol=1e-5)


def test_silence_is_flat_and_finite() -> None:
    frames = LogMel().features(np.zeros(16000, np.float32))
    np.testing.assert_allclose(frames, -1.5, atol=1e-6)


def test_settings_come_from_the_published_file() -> None:
    config = {
        "feature_size": 128,
        "n_fft": 200,
        "hop_length": 80,
        "chunk_length": 300,
        "sampling_rate": 16000,
    }
    assert LogMel.from_config(config) == LogMel(128, 200, 80, 300, 16000)
    assert LogMel.from_config({}) == LogMel()
