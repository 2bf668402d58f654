"""Qwen2-Audio without its weights: sounds as log-mel frames, one placeholder for every 40 ms."""

import numpy as np

from models.checkpoint import Checkpoint, CheckpointError
from models.processing.base import MediaLayout, PreparedMedia
from models.processing.fingerprint import fingerprint
from models.processing.mel_sounds import MelSounds
from models.processing.text import Marked, TextProcessing


class Qwen2AudioProcessing(TextProcessing):
    """`Processing` of Qwen2-Audio; the template writes the brackets."""

    kinds = frozenset({"audio"})

    def __init__(self, sounds: MelSounds, audio_token: str, audio_token_id: int) -> None:
        self.sounds = sounds
        self.placeholders = {"audio": Marked(audio_token, audio_token_id)}
        self.sampling_rate = sounds.sampling_rate
        self.fingerprint = fingerprint(self, sounds.settings)

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> "Qwen2AudioProcessing":
        """CheckpointError where the extractor gives more or fewer frames than the encoder takes."""
        config, sounds = checkpoint.config, MelSounds.from_checkpoint(checkpoint)
        taken = 2 * (config.get("audio_config") or {}).get("max_source_positions", 1500)
        if sounds.max_frames != taken:
            raise CheckpointError(
                f"Sounds prepared in {sounds.max_frames} frames for an encoder of {taken} are not supported"
            )
        processor = checkpoint.read_json("processor_config.json") or {}
        token = checkpoint.tokenizer_config.get("audio_token") or processor.get("audio_token") or "<|AUDIO|>"
        return cls(sounds, token, config.get("audio_token_index", config.get("audio_token_id", 151646)))

    def audio_layout(self, num_samples: int) -> MediaLayout:
        return self.sounds.layout(num_samples)

    def prepare_audio(self, samples: np.ndarray) -> PreparedMedia:
        """input_features: float32 [mel bins, 2 * rows + 1]: two frames for each row of the encoder that sees
        sound, and one more that its convolutions reach; zero where the extractor has no more."""
        count = 2 * ((self.sounds.num_frames(len(samples)) + 1) // 2) + 1
        frames = self.sounds.frames(samples, min(count, self.sounds.max_frames))
        return {"input_features": np.pad(frames, ((0, 0), (0, count - frames.shape[1])))}
