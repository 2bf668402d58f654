"""Log-mel features, equal to transformers' WhisperFeatureExtractor cut to the sound's own frames."""

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor
from transformers.audio_utils import mel_filter_bank

from tools.demo_model.sizes import AUDIO
from tools.demo_model.speak import RATE

HOP, WINDOW = 160, 400


@lru_cache
def filters() -> Tensor:
    bank = mel_filter_bank(
        1 + WINDOW // 2, AUDIO["mels"], 0.0, RATE / 2, RATE, norm="slaney", mel_scale="slaney"
    )
    return torch.from_numpy(bank).float()


def frame_count(samples: int) -> int:
    return -(-samples // HOP)


def token_count(frames: int) -> int:
    """Tokens that the audio tower returns for so many frames."""
    return ((frames - 1) // 2 + 1 - 2) // 2 + 1


def log_mel(sound: np.ndarray) -> Tensor:
    """(mels, frames) of float32 samples at 16 kHz; one frame each begun 10 ms."""
    padded = torch.nn.functional.pad(torch.from_numpy(sound), (0, 2 * WINDOW))
    spectrum = torch.stft(padded, WINDOW, HOP, window=torch.hann_window(WINDOW), return_complex=True)
    mel = filters().T @ spectrum.abs() ** 2
    logs = mel.clamp(min=1e-10).log10()
    logs = logs.maximum(logs.max() - 8.0)
    return ((logs + 4.0) / 4.0)[:, : frame_count(len(sound))]


def other_mouth(mel: Tensor, factor: float) -> Tensor:
    """The features as a longer (factor above 1) or shorter mouth would give them: bands moved up or down."""
    at = (torch.arange(mel.shape[0]) * factor).clamp(max=mel.shape[0] - 1.0)
    low = at.long().clamp(max=mel.shape[0] - 2)
    share = (at - low)[:, None]
    return mel[low] * (1 - share) + mel[low + 1] * share
