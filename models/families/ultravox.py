"""Ultravox: Whisper's encoder, a projector that stacks its rows, and a language model that reads them.

Encoder and language model may lie in checkpoints of their own, which the configuration names.
"""

from typing import Any, Self

import torch
import torch.nn.functional as F

from models.activations import ACTIVATIONS
from models.checkpoint import Checkpoint, CheckpointError
from models.configs import build_config, read_config
from models.decoder import Decoder, rms_norm
from models.decoder_config import DecoderConfig
from models.families.published import TEXT_PREFIXES
from models.families.text import TextModel
from models.families.whisper import WhisperConfig, WhisperEncoder
from models.interface import EncoderInput
from models.processing.ultravox import FRAMES_PER_POSITION, UltravoxProcessing, audio_checkpoint
from models.weights import Weights

_NORM_EPS = 1e-6
_TEXT_PREFIXES = ("model.", *TEXT_PREFIXES)


class Projector:
    """Stacks neighbouring rows of the encoder and maps them to the language model's width.

    Up to version 0.4.1 the last norm follows the second matrix, since 0.5 it precedes it
    (`projector_ln_mid`).
    """

    def __init__(self, config: dict[str, Any], in_width: int, out_width: int, weights: Weights) -> None:
        if config.get("num_projector_layers", 0):
            raise CheckpointError("An Ultravox projector with transformer layers is not supported")
        self.stack_factor: int = config.get("stack_factor", 8)
        self.activation: str = config.get("projector_act", "swiglu")
        if self.activation not in ("swiglu", *ACTIVATIONS):
            raise CheckpointError(f"An Ultravox projector with {self.activation!r} is not supported")
        stacked, hidden = in_width * self.stack_factor, config.get("hidden_size", 4096)
        middle = hidden // 2 if self.activation == "swiglu" else hidden
        norm_between = config.get("projector_ln_mid", False)
        self.norm_in = weights.take("ln_pre.weight", shape=(stacked,))
        self.first = weights.take("linear_1.weight", shape=(hidden, stacked))
        self.norm_between = weights.take("ln_mid.weight", shape=(middle,)) if norm_between else None
        self.second = weights.take("linear_2.weight", shape=(out_width, middle))
        self.norm_out = None if norm_between else weights.take("ln_post.weight", shape=(out_width,))

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """[batch, rows, in_width] -> [batch, ceil(rows / stack_factor), out_width]."""
        x = F.pad(rows, (0, 0, 0, -rows.shape[1] % self.stack_factor))
        x = x.unflatten(1, (-1, self.stack_factor)).flatten(2)
        x = self._activate(F.linear(rms_norm(x, self.norm_in, _NORM_EPS), self.first))
        if self.norm_between is not None:
            x = rms_norm(x, self.norm_between, _NORM_EPS)
        x = F.linear(x, self.second)
        return x if self.norm_out is None else rms_norm(x, self.norm_out, _NORM_EPS)

    def _activate(self, x: torch.Tensor) -> torch.Tensor:
        if self.activation != "swiglu":
            return ACTIVATIONS[self.activation](x)
        value, gate = x.chunk(2, dim=-1)
        return F.silu(gate) * value


class UltravoxModel(TextModel):
    """`ServedModel` of an Ultravox checkpoint."""

    processing: UltravoxProcessing
    encoder: WhisperEncoder
    projector: Projector

    @classmethod
    def load(
        cls, checkpoint: Checkpoint, config: Any, weights: Weights, processing: UltravoxProcessing
    ) -> Self:
        """config: not used. Parts that the checkpoint itself holds win over those it names."""
        if checkpoint.config.get("audio_latency_block_size"):
            raise CheckpointError("An Ultravox with blockwise attention in its encoder is not supported")
        decoder = _load_decoder(checkpoint, weights)
        model = cls(checkpoint, processing, decoder)
        model.encoder = _load_encoder(checkpoint, weights)
        model.projector = Projector(
            checkpoint.config,
            model.encoder.config.width,
            decoder.config.hidden_size,
            weights.prefixed("multi_modal_projector."),
        )
        return model

    def encode_one(self, kind: str, item: EncoderInput) -> torch.Tensor:
        """Piece by piece, each cut to its own tokens.

        The published code pads all pieces after the first to the whole context and hides the padding from
        attention; but what the padding itself becomes still reaches the last token, where it fills up the
        stack. So that much padding is encoded here too.
        """
        features = item.arrays["features"].to(self.dtype)  # [mels, frames]
        tokens = []
        for start, end, num_tokens in self.processing.pieces(features.shape[1]):
            num_frames = end - start
            piece = features[:, start:end]
            if start:
                padded = min(num_tokens * self.processing.frames_per_token, self.processing.context_frames)
                piece = F.pad(piece, (0, padded - num_frames))
            rows = self.encoder(piece[None], num_valid=-(-num_frames // FRAMES_PER_POSITION))
            tokens.append(self.projector(rows)[0, :num_tokens])
        return torch.cat(tokens)


def _load_decoder(checkpoint: Checkpoint, weights: Weights) -> Decoder:
    """The language model: the checkpoint's own tensors, over those of the checkpoint that it names."""
    own = weights.prefixed("language_model.")
    complete = own.prefixed(*_TEXT_PREFIXES).has("embed_tokens.weight")
    name = checkpoint.config.get("text_model_id")
    if not name:
        config = build_config(checkpoint.config.get("text_config") or {}, "llama")
        return Decoder(_decoder_config(config), own, _TEXT_PREFIXES)
    text = checkpoint.referred(name, weights=not complete)
    config = _decoder_config(read_config(text))
    if not complete:
        _refuse_adapter(checkpoint, "text_model_lora_config")
        own = own.over(weights.beside(text))
    return Decoder(config, own, _TEXT_PREFIXES)


def _decoder_config(config: Any) -> DecoderConfig:
    """config: of a language model, or of one that sees too (Gemma 3), whose tower is left aside."""
    if config is None:
        raise CheckpointError("An Ultravox with a language model of an unknown type is not supported")
    return DecoderConfig.from_text_config(config.get_text_config(), tie=config.tie_word_embeddings)


def _load_encoder(checkpoint: Checkpoint, weights: Weights) -> WhisperEncoder:
    own = weights.prefixed("audio_tower.")
    complete = own.has("conv1.weight")
    audio = audio_checkpoint(checkpoint, weights=not complete)
    raw = (audio.config if audio else checkpoint.config.get("audio_config")) or {}
    config = WhisperConfig.of(build_config(raw, "whisper"))
    if audio is not None and not complete:
        _refuse_adapter(checkpoint, "audio_model_lora_config")
        own = own.over(weights.beside(audio).prefixed("model.encoder.", "encoder."))
    return WhisperEncoder(config, own)


def _refuse_adapter(checkpoint: Checkpoint, key: str) -> None:
    """Adapters are merged when a checkpoint is published; one that isn't would be left out silently."""
    if (checkpoint.config.get(key) or {}).get("r", 0):
        raise CheckpointError(f"An Ultravox with an adapter that is not merged ({key}) is not supported")
