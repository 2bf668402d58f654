"""LLaVA as `transformers` runs it, with its own image processor and its own count of placeholders."""

from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import LlavaForConditionalGeneration
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

from tests.proof.reference import Picture, Piece


class LlavaReference:
    def __init__(self, path: Path) -> None:
        self.images = CLIPImageProcessorPil.from_pretrained(path)
        self.model = LlavaForConditionalGeneration.from_pretrained(
            path, dtype=torch.float32, attn_implementation="eager"
        )
        self.model.eval()

    @torch.no_grad()
    def log_probs(self, pieces: Sequence[Piece], continuation: Sequence[int] = ()) -> torch.Tensor:
        """float32 [1 + len(continuation), vocab], from the prompt's last token on."""
        config = self.model.config
        ids: list[int] = []
        pixels = []
        for piece in pieces:
            if isinstance(piece, Picture):
                pixels.append(self.images(images=[piece.image], return_tensors="pt")["pixel_values"])
                rows, columns = (side // config.vision_config.patch_size for side in pixels[-1].shape[-2:])
                is_full = config.vision_feature_select_strategy == "full"
                ids += [config.image_token_id] * (rows * columns + is_full)
            else:
                ids.append(piece)
        tokens = torch.tensor([ids + list(continuation)])
        images = {"pixel_values": torch.cat(pixels)} if pixels else {}
        logits = self.model(input_ids=tokens, attention_mask=torch.ones_like(tokens), **images).logits
        return torch.log_softmax(logits[0, len(ids) - 1 :].float(), dim=-1)
