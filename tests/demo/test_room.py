"""Recordings of speech for the demonstration model: whatever the room does, the whole of it is heard."""

import random

import numpy as np
import torch

from tools.demo_model.mel import other_mouth
from tools.demo_model.room import recorded
from tools.demo_model.speak import RATE

LONGEST = 2 * RATE


def test_slow_speech_is_never_cut_off() -> None:
    rng = random.Random(0)
    speech = 0.01 * np.sin(np.arange(int(1.8 * RATE)) / 5).astype(np.float32)
    speech[-RATE // 10 :] *= 50  # the last sound is by far the loudest
    for _ in range(40):
        heard = recorded(speech, "digits", rng, LONGEST)
        assert len(heard) <= LONGEST
        loud = np.abs(heard) > 0.5 * np.abs(heard).max()
        assert loud.mean() < 0.2, "without its last sound, all of the rest is as loud"


def test_a_mouth_of_the_same_size_changes_nothing() -> None:
    mel = torch.randn(80, 30)
    assert torch.equal(other_mouth(mel, 1.0), mel)
    assert other_mouth(mel, 1.1).shape == mel.shape
