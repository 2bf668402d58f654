"""Ultravox without its weights: how many tokens a sound takes, and its log-mel frames.

A sound is cut into pieces of the encoder's context (30 s as published), each of a whole number of tokens.
"""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

from models.checkpoint import Checkpoint, CheckpointError
from models.processing.audio_mel import LogMel
from models.processing.base import MediaError, MediaLayout, PreparedMedia
from models.processing.text import Marked, TextProcessing

MARKER = "<|audio|>"
FRAMES_PER_POSITION = 2
"""Mel frames for each row of the encoder: the stride of its second convolution."""


class UltravoxProcessing(TextProcessing):
    """context_frames: mel frames that the encoder takes at once. stack_factor: encoder rows in a token.

    placeholder_id: stands for sound in the token ids; it is what the published processor puts there.
    """

    kinds = frozenset({"audio"})

    def __init__(self, mel: LogMel, context_frames: int, stack_factor: int, placeholder_id: int) -> None:
        self.mel = mel
        self.context_frames = context_frames
        self.frames_per_token = FRAMES_PER_POSITION * stack_factor
        self.placeholders = {"audio": Marked(MARKER, placeholder_id)}
        self.sampling_rate = mel.sampling_rate
        self.fingerprint = f"ultravox-1 {sorted(asdict(mel).items())} numpy-{np.__version__}"

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> "UltravoxProcessing":
        audio = audio_checkpoint(checkpoint, weights=False)
        config = (audio.config if audio else checkpoint.config.get("audio_config")) or {}
        extractor = _feature_extractor(checkpoint) or (audio and _feature_extractor(audio))
        mel = LogMel.from_config(extractor or {"feature_size": config.get("num_mel_bins", 80)})
        if not checkpoint.eos_token_ids:
            raise CheckpointError(f"{checkpoint.path} names no end-of-sequence token")
        return cls(
            mel=mel,
            context_frames=FRAMES_PER_POSITION * config.get("max_source_positions", 1500),
            stack_factor=checkpoint.config.get("stack_factor", 8),
            placeholder_id=checkpoint.eos_token_ids[-1],
        )

    def audio_layout(self, num_samples: int) -> MediaLayout:
        """One analysis window is the shortest sound that is taken."""
        shortest = max(self.mel.n_fft, 2 * self.mel.hop_length)
        if num_samples < shortest:
            milliseconds = 1000 * shortest / self.sampling_rate
            raise MediaError(f"A sound must last at least {milliseconds:g} ms", "audio_too_short")
        frames = -(-num_samples // self.mel.hop_length)
        return MediaLayout(sum(tokens for _, _, tokens in self.pieces(frames)))

    def pieces(self, num_frames: int) -> Iterator[tuple[int, int, int]]:
        """(first frame, end, tokens) of each piece that the encoder takes at once."""
        for start in range(0, num_frames, self.context_frames):
            end = min(start + self.context_frames, num_frames)
            yield start, end, -(-(end - start) // self.frames_per_token)

    def prepare_audio(self, samples: np.ndarray) -> PreparedMedia:
        hop = self.mel.hop_length
        return {"features": self.mel.features(samples, pad_to=-(-len(samples) // hop) * hop)}


def audio_checkpoint(checkpoint: Checkpoint, weights: bool) -> Checkpoint | None:
    """The checkpoint that an Ultravox names for its encoder; None if the encoder is its own."""
    name = checkpoint.config.get("audio_model_id")
    return checkpoint.referred(name, weights) if name else None


def _feature_extractor(checkpoint: Checkpoint) -> dict[str, Any] | None:
    """Settings from wherever they are published: a file of their own, or within the processor's."""
    processor = checkpoint.read_json("processor_config.json") or {}
    own = checkpoint.read_json("preprocessor_config.json") or {}
    candidates = (own, processor.get("feature_extractor"), processor.get("audio_processor"))
    return next((c for c in candidates if isinstance(c, dict) and "feature_size" in c), None)
