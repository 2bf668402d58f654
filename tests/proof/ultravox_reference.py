"""Ultravox as a plain composition of what `transformers` has: its Whisper encoder, a projector, its Llama."""

from collections.abc import Sequence
from pathlib import Path

import torch

from tests.models.test_ultravox import Reference as Composition
from tests.proof.reference import Piece, Sound

PLACEHOLDER = 302


class UltravoxReference(Composition):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.language.eval()

    @torch.inference_mode()
    def log_probs(self, pieces: Sequence[Piece], continuation: Sequence[int] = ()) -> torch.Tensor:
        """float32 [1 + len(continuation), vocab], from the prompt's last token on."""
        embed = self.language.get_input_embeddings()
        parts = [
            self.encode(piece.samples) if isinstance(piece, Sound) else embed(torch.tensor([piece]))
            for piece in pieces
        ]
        num_prompt = sum(len(part) for part in parts)
        parts += [embed(torch.tensor([token])) for token in continuation]
        logits = self.language(inputs_embeds=torch.cat(parts)[None]).logits[0, num_prompt - 1 :]
        return torch.log_softmax(logits.float(), dim=-1)
