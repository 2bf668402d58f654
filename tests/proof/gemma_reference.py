"""Gemma 3 as `transformers` runs it, with its own image processor; tokens around a picture as its processor
writes them."""

from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import Gemma3ForConditionalGeneration
from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil

from tests.proof.reference import Picture, Piece


class GemmaReference:
    def __init__(self, path: Path) -> None:
        self.images = Gemma3ImageProcessorPil.from_pretrained(path)
        self.model = Gemma3ForConditionalGeneration.from_pretrained(
            path, dtype=torch.float32, attn_implementation="eager"
        )
        self.model.eval()

    @torch.no_grad()
    def log_probs(self, pieces: Sequence[Piece], continuation: Sequence[int] = ()) -> torch.Tensor:
        """float32 [1 + len(continuation), vocab], from the prompt's last token on."""
        config = self.model.config
        soft = [config.image_token_id] * config.mm_tokens_per_image
        ids: list[int] = []
        pixels = []
        for piece in pieces:
            if isinstance(piece, Picture):
                pixels.append(self.images(images=[piece.image], return_tensors="pt")["pixel_values"])
                ids += [config.boi_token_id, *soft, config.eoi_token_id]
            else:
                ids.append(piece)
        tokens = torch.tensor([ids + list(continuation)])
        images = {"pixel_values": torch.cat(pixels)} if pixels else {}
        logits = self.model(
            input_ids=tokens,
            attention_mask=torch.ones_like(tokens),
            token_type_ids=(tokens == config.image_token_id).long(),
            **images,
        ).logits
        return torch.log_softmax(logits[0, len(ids) - 1 :].float(), dim=-1)
