"""LLaVA: CLIP's vision tower, a projector of two layers, and a language model that reads its rows."""

from typing import Any, Self

import torch

from models.activations import ACTIVATIONS
from models.checkpoint import Checkpoint, CheckpointError
from models.decoder import Decoder
from models.decoder_config import DecoderConfig
from models.families.clip import ClipConfig, ClipVision
from models.families.published import TEXT_PREFIXES, VISION_PREFIXES
from models.families.text import TextModel
from models.interface import EncoderInput
from models.linear import Map, packed, take_linear
from models.processing.llava import LlavaProcessing
from models.weights import Weights


class LlavaModel(TextModel):
    """`ServedModel` of a LLaVA checkpoint."""

    vision: ClipVision
    projector: Map
    first_row: int
    """Of the tower's rows, from which on they are tokens: 1 leaves out that for the whole picture."""

    @classmethod
    def load(cls, checkpoint: Checkpoint, config: Any, weights: Weights, processing: LlavaProcessing) -> Self:
        text = DecoderConfig.from_text_config(config.text_config, tie=config.tie_word_embeddings)
        model = cls(checkpoint, processing, Decoder(text, weights, TEXT_PREFIXES))
        tower = ClipConfig.of(config.vision_config, config.vision_feature_layer)
        both = weights.prefixed("", "model.")
        model.vision = ClipVision(tower, both.prefixed(*VISION_PREFIXES), processing.images.values)
        inputs = tower.blocks.width * len(tower.outputs)
        model.projector = _take_projector(config, both, inputs, text.hidden_size)
        model.first_row = int(config.vision_feature_select_strategy == "default")
        return model

    def encode_one(self, kind: str, item: EncoderInput) -> torch.Tensor:
        if kind != "image":
            return super().encode_one(kind, item)
        return self.projector(self.vision(item.arrays["pixels"])[self.first_row :])


def _take_projector(config: Any, weights: Weights, inputs: int, outputs: int) -> Map:
    if config.projector_hidden_act not in ACTIVATIONS:
        raise CheckpointError(f"A projector with {config.projector_hidden_act!r} is not supported")
    view, bias = weights.prefixed("multi_modal_projector."), config.multimodal_projector_bias
    first = packed(take_linear(view, "linear_1", inputs, outputs, bias), config.projector_hidden_act)
    second = packed(take_linear(view, "linear_2", outputs, outputs, bias))
    return lambda x: second(first(x))
