"""Decode steps on the CPU against the time it takes to read the same weights once, in one run.

    python benchmarks/decode_floor.py [--threads 1] [--context 256] [--rounds 20]

Prints, for each size and batch: tokens a second of the native and the portable back end, and what share of
the read floor the native one reaches. Random weights; the variants alternate, the fastest round counts.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from transformers import Qwen2Config

from engine.attention.base import Chunk, FixedBackend
from engine.batch import HostBatch
from engine.config import EngineConfig
from engine.decode_graphs import DecodeGraphs, Recorder
from engine.graph_check import recorded_step
from engine.runner import build_runner
from models.decoder import Decoder
from models.decoder_config import DecoderConfig
from models.interface import ForwardBatch, PagedAttention
from models.processing.text import TextProcessing
from models.weights import RandomWeights

SIZES = {
    "tiny": {
        "vocab_size": 512,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    },
    "131M": {
        "vocab_size": 49152,
        "hidden_size": 768,
        "intermediate_size": 2048,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "num_key_value_heads": 4,
    },
    "0.5B": {
        "vocab_size": 151936,
        "hidden_size": 896,
        "intermediate_size": 4864,
        "num_hidden_layers": 24,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
    },
    "3B": {
        "vocab_size": 151936,
        "hidden_size": 2048,
        "intermediate_size": 11008,
        "num_hidden_layers": 36,
        "num_attention_heads": 16,
        "num_key_value_heads": 2,
    },
}


class Model:
    """A decoder alone, as a runner takes it."""

    processing = TextProcessing()

    def __init__(self, decoder: Decoder) -> None:
        self.decoder, self.attention = decoder, decoder.config.attention
        self.dtype, self.device = decoder.embedding.dtype, decoder.embedding.device
        self.vocab_size = decoder.config.vocab_size

    def forward(self, batch: ForwardBatch, attention: PagedAttention) -> torch.Tensor:
        return self.decoder(self.decoder.embed(batch.ids), batch.positions, attention)


def weight_bytes(decoder: Decoder) -> int:
    matrices = [m for layer in decoder.layers for m in (layer.qkv, layer.o, layer.gate_up, layer.down)]
    return sum(m.nbytes for m in [*matrices, decoder.head] if isinstance(m, torch.Tensor))


def reader(num_bytes: int) -> Callable[[], object]:
    data = torch.ones(num_bytes // 8, dtype=torch.int64)
    return lambda: data.sum()


class DecodeStep:
    """One decode step of `batch` sequences with `context` tokens each, logits included."""

    def __init__(self, decoder: Decoder, backend: str, batch: int, context: int, threads: int) -> None:
        blocks = context // 16 + 1
        config = EngineConfig(model="", attention_backend=backend, num_threads=threads)
        self._model: Any = Model(decoder)
        runner = build_runner(self._model, config, batch * blocks)
        self.attention, self._pages = runner.attention, runner.pages
        self._graphs: DecodeGraphs | None = None
        self._chunks = [
            Chunk(context, context + 1, range(i * blocks, (i + 1) * blocks)) for i in range(batch)
        ]
        self._batch = HostBatch(np.zeros(batch, np.int64), np.full((1, batch), context), [])

    def __call__(self) -> None:
        self.forward(self.plan())

    def plan(self) -> PagedAttention:
        return self.attention.plan(self._chunks)

    def forward(self, planned: PagedAttention) -> None:
        self._choose(self._model.forward(self._batch.on(self._model.device), planned))

    def record(self, record: Recorder) -> None:
        """So that it can be `replayed`. Raises where it can't, or where that gives other numbers."""
        if not isinstance(self.attention, FixedBackend):
            raise ValueError(f"the back end {self.attention.name} plans each step anew")
        batch = len(self._chunks)
        self._graphs = DecodeGraphs(
            {batch: recorded_step(self._model, self.attention, self._pages, batch, record)}
        )

    def replayed(self) -> None:
        """As it is called, but launched at once."""
        assert self._graphs is not None
        hidden = self._graphs.forward(self._chunks, self._batch)
        assert hidden is not None
        self._choose(hidden)

    def _choose(self, hidden: torch.Tensor) -> None:
        self._model.decoder.logits(hidden).argmax(-1)


def fastest(variants: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Seconds of each variant's fastest call; they take turns, so a busy machine is busy for all."""
    best = dict.fromkeys(variants, float("inf"))
    for _ in range(rounds):
        for name, call in variants.items():
            start = time.thread_time()
            call()
            best[name] = min(best[name], time.thread_time() - start)
    return best


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--sizes", nargs="*", default=["131M", "0.5B"], choices=list(SIZES))
    options = parser.parse_args()
    print(f"{'size':>6} {'batch':>5} {'floor ms':>9} {'native tok/s':>13} {'of floor':>8} {'sdpa tok/s':>11}")
    for size in options.sizes:
        config = DecoderConfig.from_text_config(Qwen2Config(**SIZES[size], tie_word_embeddings=True))
        decoders = {
            name: Decoder(config, RandomWeights(0.02, torch.bfloat16, "cpu")) for name in ("native", "sdpa")
        }
        floor = reader(weight_bytes(decoders["sdpa"]))
        for batch in (1, 8, 32):
            steps = {
                name: DecodeStep(decoder, name, batch, options.context, options.threads)
                for name, decoder in decoders.items()
            }
            best = fastest({"floor": floor, **steps}, options.rounds)
            share = best["floor"] / best["native"]
            print(
                f"{size:>6} {batch:>5} {best['floor'] * 1e3:>9.2f} {batch / best['native']:>13.0f} "
                f"{share:>8.0%} {batch / best['sdpa']:>11.0f}"
            )


if __name__ == "__main__":
    main()
