"""The C kernels compute what the portable path computes, on every instruction set that they are built for."""

import copy
import itertools
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch.nn.functional import linear

from engine.attention.base import Chunk
from engine.attention.native import NativeBackend
from engine.attention.sdpa import SdpaBackend
from engine.native.decoder import NativeDecoder, install_fused
from engine.native.layers import NotFusable
from engine.native.library import Library
from engine.native.packing import NativeMatrix
from models.decoder import Decoder, LayerWeights
from models.interface import AddedRows
from tests.engine.native_pages import packed, unpacked
from tests.engine.tiny_llama import tiny_pair

MACHINES = ["native", "x86-64-v3"]
NUM_BLOCKS = 48
NUM_ROWS = 32
# bfloat16 keeps 8 bits: a rounding is up to 2^-9 of a value, and there are a few in a row.
BFLOAT16_ERROR = 2e-2


def pages(decoder: Decoder, dtype: torch.dtype) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    spec = decoder.config.attention
    generator = torch.Generator().manual_seed(9)
    shape = (NUM_BLOCKS, 16, spec.num_kv_heads, spec.head_dim)
    made = [torch.randn(shape, generator=generator).to(dtype) for _ in range(2 * spec.num_layers)]
    return made[: spec.num_layers], made[spec.num_layers :]


def run(
    decoder: Decoder,
    chunks: list[Chunk],
    fused: bool,
    machine: str = "native",
    threads: int = 1,
    added: Sequence[AddedRows] = (),
    read: list[int] | None = None,
):
    """Hidden states and pages after one step from the same pages, whatever the path."""
    keys, values = pages(decoder, decoder.embedding.dtype)
    decoder = copy.copy(decoder)
    decoder.layers = list(decoder.layers)
    if fused:
        keys, values = [packed(k, True) for k in keys], [packed(v, False) for v in values]
        backend = NativeBackend(decoder.config.attention, keys, values, Library(threads, machine))
        decoder.fused = NativeDecoder(decoder, backend)
    else:
        backend = SdpaBackend(decoder.config.attention, keys, values)
    ids = torch.cat([(torch.arange(c.start, c.end) * 7 + c.block_table[0]) % 128 for c in chunks])
    positions = torch.cat([torch.arange(c.start, c.end) for c in chunks])[None]
    plan = backend.plan(chunks)
    assert decoder.fused is None or decoder.fused.accepts(plan)
    wanted = None if read is None else torch.tensor(read)
    hidden = decoder(decoder.embed(ids), positions, plan, added, wanted)
    logits = decoder.logits(hidden)
    if fused:
        keys, values = [unpacked(k, True) for k in keys], [unpacked(v, False) for v in values]
    return hidden, logits, torch.stack(keys + values)


CHUNKS = {
    "one row": [Chunk(40, 41, [3, 5, 7])],
    "rows": [
        Chunk(s, s + 1, range(3 * i, 3 * i + 3)) for i, s in enumerate((0, 13, 16, 31, 32, 47, 20, 1, 2))
    ],
    "rows and chunks": [Chunk(17, 18, [1, 2]), Chunk(0, 9, [3]), Chunk(30, 44, [6, 5, 4], [(35, 40)])],
    "long": [Chunk(530, 531, list(range(34))), Chunk(12, 20, [40, 41])],
}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS.keys())
@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("llama", {}),
        ("llama", {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True}),
        (
            "qwen2",
            {"vocab_size": 130, "use_sliding_window": True, "sliding_window": 18, "max_window_layers": 1},
        ),
        ("qwen3", {"num_key_value_heads": 1, "intermediate_size": 112}),
    ],
)
def test_fused_layers_equal_the_portable_path(
    kind: str, changes: dict, chunks: list[Chunk], machine: str
) -> None:
    decoder = tiny_pair(kind, **changes).model.decoder
    for actual, expected in zip(
        run(decoder, chunks, True, machine), run(decoder, chunks, False), strict=True
    ):
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("threads", [1, 2])
def test_rows_are_added_after_their_layers(machine: str, threads: int) -> None:
    """Several to one layer, some to each of the others: parts of wider rows, one turned on its side."""
    decoder = tiny_pair("qwen3").model.decoder
    chunks = CHUNKS["rows and chunks"]
    wide = torch.randn(14, 3 * 64, generator=torch.Generator().manual_seed(3))
    added = [
        AddedRows(0, 2, wide[:5, 64:128]),
        AddedRows(0, 20, wide[5:8, 64:128]),
        AddedRows(1, 12, wide[:, :64].reshape(64, 14).T[:4]),
        AddedRows(2, 10, wide[:, 128:]),
    ]
    expected = run(decoder, chunks, False, added=added)
    for actual, wanted in zip(
        run(decoder, chunks, True, machine, threads, added=added), expected, strict=True
    ):
        torch.testing.assert_close(actual, wanted, rtol=1e-4, atol=1e-4)
    for rows in added:
        others = [other for other in added if other is not rows]
        assert (run(decoder, chunks, False, added=others)[0] - expected[0]).abs().max() > 0.1


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "portable"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("layer", [0, 2], ids=["early", "last"])
def test_rows_that_are_not_read_change_nothing(layer: int, dtype: torch.dtype, fused: bool) -> None:
    """Neither what is read, bit by bit in C, nor keys and values. Rows may be added to those not read."""
    decoder = tiny_pair("qwen2", dtype).model.decoder
    chunks = [*CHUNKS["rows and chunks"], Chunk(0, 100, range(10, 17)), Chunk(3, 310, range(20, 40))]
    added = [AddedRows(layer, 5, torch.randn(9, 64, generator=torch.Generator().manual_seed(3)).to(dtype))]
    whole, _, pages = run(decoder, chunks, fused, threads=2, added=added)
    for read in ([0, 9, 23, 123, 430], [3], list(range(40, 431, 5)), list(range(431))):
        hidden, _, same_pages = run(decoder, chunks, fused, threads=2, added=added, read=read)
        assert torch.equal(same_pages, pages)
        if fused:
            assert torch.equal(hidden, whole[read])
        else:
            torch.testing.assert_close(hidden, whole[read], rtol=1e-4, atol=BFLOAT16_ERROR)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3"])
def test_in_bfloat16_fused_layers_are_no_worse_than_the_portable_path(kind: str, machine: str) -> None:
    """Both are compared with float32 arithmetic on the same rounded weights."""
    chunks = CHUNKS["rows and chunks"]
    decoder = tiny_pair(kind, torch.bfloat16).model.decoder
    exact = tiny_pair(kind).model.decoder
    exact.embedding, exact.head = decoder.embedding.float(), decoder.head.float()
    exact.final_norm = decoder.final_norm.float()
    exact.layers = [LayerWeights(*(None if w is None else w.float() for w in ws)) for ws in decoder.layers]
    wanted = run(exact, chunks, False)[0]

    def error(fused: bool) -> float:
        hidden = run(decoder, chunks, fused, machine)[0].float()
        return float((hidden - wanted).square().mean().sqrt() / wanted.square().mean().sqrt())

    assert error(fused=True) < BFLOAT16_ERROR
    assert error(fused=True) < 1.1 * error(fused=False)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_row_does_not_depend_on_its_batch(dtype: torch.dtype, machine: str) -> None:
    decoder = tiny_pair("qwen3", dtype).model.decoder
    chunks = [Chunk(place, place + 1, [i]) for i, place in enumerate([*range(16), *range(16)])]
    assert len(chunks) == NUM_ROWS
    alone = [run(decoder, [chunk], True, machine)[:2] for chunk in chunks]
    for size in (2, 5, 13, 25, NUM_ROWS):
        hidden, logits, _ = run(decoder, chunks[:size], True, machine, threads=2)
        for row in range(size):
            assert torch.equal(hidden[row], alone[row][0][0])
            assert torch.equal(logits[row], alone[row][1][0])


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(16, 16), (48, 160), (37, 512), (130, 1008)])
def test_products_equal_torch(shape: tuple[int, int], dtype: torch.dtype, machine: str) -> None:
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(shape, generator=generator).to(dtype)
    packed = NativeMatrix(weight, Library(1, machine))
    rows = torch.randn(900, shape[1], generator=generator).to(dtype)  # several blocks for the L2 cache
    expected = linear(rows.double(), weight.double()).float()
    for count in (*range(1, 34), 70, 900):
        actual = packed.multiply(rows[:count])
        torch.testing.assert_close(actual, expected[:count], rtol=1e-5, atol=1e-4)
        assert torch.equal(actual[0], packed.multiply(rows[:1])[0])


def test_a_row_may_be_wider_than_what_stays_in_the_cache() -> None:
    packed = NativeMatrix(torch.ones(16, 100_000), Library(1))
    for count in (1, 3):
        assert torch.equal(packed.multiply(torch.ones(count, 100_000)), torch.full((count, 16), 100_000.0))


@pytest.mark.parametrize("machine", MACHINES)
def test_what_is_not_finite_reaches_the_logits_of_its_own_row_alone(machine: str) -> None:
    decoder = tiny_pair(dtype=torch.bfloat16).model.decoder
    decoder.embedding[8] = float("nan")
    # Tokens are 7 * position + first block: the second row's is 8.
    chunks = [Chunk(0, 1, [3]), Chunk(0, 1, [8]), Chunk(0, 1, [5])]
    _, logits, _ = run(decoder, chunks, True, machine)
    assert logits[1].isnan().all()
    assert logits[[0, 2]].isfinite().all()


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "portable"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_is_not_finite_reaches_the_last_row_of_its_chunk_alone(value: float, fused: bool) -> None:
    """That row is read, and stands for all before it: `Runner` fails the chunk by it."""
    decoder = tiny_pair("qwen2").model.decoder
    chunks = [Chunk(0, 300, range(10, 29)), Chunk(0, 20, range(2))]
    for row in (0, 37, 255, 256, 298):
        broken = [AddedRows(1, row, torch.full((1, 64), value))]
        hidden, _, _ = run(decoder, chunks, fused, added=broken, read=[299, 319])
        assert hidden.isfinite().all(-1).tolist() == [False, True]


def test_packed_weights_serve_other_back_ends_too() -> None:
    """A model whose weights were packed for one runner may be given to another, of any back end."""
    decoder = tiny_pair("qwen2").model.decoder
    expected = run(decoder, CHUNKS["rows and chunks"], False)[0]
    keys, values = pages(decoder, torch.float32)
    backend = NativeBackend(decoder.config.attention, keys, values, Library(1))
    fused = NativeDecoder(decoder, backend)
    assert not fused.accepts(SdpaBackend(decoder.config.attention, keys, values).plan([Chunk(0, 1, [0])]))
    for again in (False, True):
        actual = run(decoder, CHUNKS["rows and chunks"], again)[0]
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("machine", MACHINES)
def test_how_a_prompt_is_cut_does_not_show_in_bfloat16(machine: str) -> None:
    """Long enough for several parts of attention, with chunks that end inside and at the edge of one."""
    decoder = tiny_pair("qwen3", torch.bfloat16).model.decoder
    keys, values = pages(decoder, torch.bfloat16)
    backend = NativeBackend(decoder.config.attention, keys, values, Library(2, machine))
    decoder.fused = NativeDecoder(decoder, backend)
    table = list(range(25))

    def compute(cuts: list[int]) -> torch.Tensor:
        hidden = []
        for start, end in itertools.pairwise(cuts):
            ids, positions = torch.arange(start, end) % 128, torch.arange(start, end)[None]
            hidden.append(decoder(decoder.embed(ids), positions, backend.plan([Chunk(start, end, table)])))
        return torch.cat(hidden)

    whole = compute([0, 400])
    assert torch.equal(compute([0, 100, 256, 257, 300, 301, 302, 399, 400]), whole)
    assert torch.equal(compute([*range(0, 390, 30), 400]), whole)


@pytest.mark.parametrize("changes", [{"hidden_act": "gelu"}, {"intermediate_size": 100}])
def test_decoders_that_the_kernels_cannot_run_stay_as_they_are(changes: dict) -> None:
    model = tiny_pair(**changes).model
    keys, values = pages(model.decoder, torch.float32)
    backend = NativeBackend(model.attention, keys, values, Library(1))
    with pytest.raises(NotFusable):
        NativeDecoder(model.decoder, backend)
    install_fused(model, backend)
    assert model.decoder.fused is None
    install_fused(object(), backend)


@pytest.mark.parametrize("changes", [{"norms_after": True}, {"norms_from_one": True}])
def test_other_norms_are_not_fused(changes: dict) -> None:
    decoder = tiny_pair().model.decoder
    backend = NativeBackend(decoder.config.attention, *pages(decoder, torch.float32), Library(1))
    decoder.config = replace(decoder.config, **changes)
    with pytest.raises(NotFusable, match="norms"):
        NativeDecoder(decoder, backend)


def test_rotary_positions_that_differ_between_layers_are_not_fused() -> None:
    decoder = tiny_pair().model.decoder
    backend = NativeBackend(decoder.config.attention, *pages(decoder, torch.float32), Library(1))
    decoder.rotary = (copy.copy(decoder.rotary[0]), *decoder.rotary[1:])
    with pytest.raises(NotFusable, match="rotary"):
        NativeDecoder(decoder, backend)


def test_a_step_of_very_many_rows_needs_no_stack() -> None:
    """Its scratch is memory that can be asked for, so the largest step that a setting allows is only slow."""
    weight = torch.ones(16, 16, dtype=torch.bfloat16)
    rows = torch.ones(100_000, 16, dtype=torch.bfloat16)
    assert (NativeMatrix(weight, Library(2)).multiply(rows) == 16).all()


FEWER_THREADS = """
from engine.attention.base import Chunk
from engine.attention.native import NativeBackend
from engine.native.library import Library
from models.interface import AttentionSpec
import torch

pages = torch.zeros(64, 16, 8, 64)
backend = NativeBackend(AttentionSpec(8, 8, 64, 1.0, (None,)), [pages], [pages.clone()], Library(16))
attention = backend.plan([Chunk(15, 16, [block]) for block in range(4)])
rows = torch.ones(4, 8, 64)
for _ in range(50):
    assert torch.equal(attention.attend(0, torch.zeros_like(rows), rows, rows), rows / 16)
"""


def test_fewer_threads_than_were_asked_for_have_room_enough() -> None:
    """OMP_THREAD_LIMIT and the like take some away after memory has been laid out."""
    environment = os.environ | {"OMP_THREAD_LIMIT": "8"}
    subprocess.run([sys.executable, "-c", FEWER_THREADS], env=environment, check=True, timeout=120)
