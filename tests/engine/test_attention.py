"""Every back end equals the reference, and the reference equals attention written row by row."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention

from engine.attention import sdpa
from engine.attention.base import Chunk, StepPlan, key_ranges, step_ranges
from engine.attention.native import NativeBackend
from engine.attention.reference import ReferenceBackend
from engine.attention.sdpa import SdpaBackend
from engine.native.library import Library
from kvcache.sequence import BLOCK_SIZE
from models.interface import AttentionSpec
from tests.engine.native_pages import NativeOnPlainPages

NUM_BLOCKS = 64


def native(machine: str) -> Callable[..., NativeOnPlainPages]:
    return lambda spec, keys, values: NativeOnPlainPages(spec, keys, values, Library(1, machine))


class TiledSdpa(SdpaBackend):
    """A few rows at a time, as with thousands of keys."""

    scores_at_once = 300


BACKENDS = {
    "sdpa": SdpaBackend,
    "sdpa in tiles": TiledSdpa,
    "native": native("native"),
    "native on AVX2": native("x86-64-v3"),
}


def make_pages(
    spec: AttentionSpec, dtype: torch.dtype, seed: int
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    shape = (NUM_BLOCKS, BLOCK_SIZE, spec.num_kv_heads, spec.head_dim)
    pages = [torch.randn(shape, generator=generator).to(dtype) for _ in range(2 * spec.num_layers)]
    return pages[: spec.num_layers], pages[spec.num_layers :]


def draw_chunks(rng: np.random.Generator, bidirectional: bool) -> list[Chunk]:
    """A mix of decode rows, whole prompts and chunks on a prefix, on blocks in random order."""
    free = list(rng.permutation(NUM_BLOCKS))
    chunks = []
    for kind in rng.integers(0, 3, size=rng.integers(1, 6)):
        size = 1 if kind == 0 else int(rng.integers(2, 60))
        start = 0 if kind == 1 else int(rng.integers(1, 100))
        end = start + size
        spans = [(start + size // 3, start + size // 3 + max(1, size // 2))] if bidirectional else []
        table = [int(free.pop()) for _ in range(-(-end // BLOCK_SIZE))]
        chunks.append(Chunk(start, end, table, spans))
    return chunks


def attend_all(backend_class, spec: AttentionSpec, chunks: list[Chunk], dtype: torch.dtype, seed: int):
    keys, values = make_pages(spec, dtype, seed)
    planned = backend_class(spec, keys, values).plan(chunks)
    rows = StepPlan(chunks).num_rows
    generator = torch.Generator().manual_seed(seed + 1)
    outputs = []
    for layer in range(spec.num_layers):
        q = torch.randn(rows, spec.num_heads, spec.head_dim, generator=generator).to(dtype)
        k, v = (
            torch.randn(rows, spec.num_kv_heads, spec.head_dim, generator=generator).to(dtype)
            for _ in range(2)
        )
        outputs.append(planned.attend(layer, q, k, v))
    return torch.stack(outputs), keys, values


@pytest.mark.parametrize(("heads", "kv_heads", "head_dim"), [(4, 4, 32), (6, 2, 64), (7, 1, 80), (4, 2, 128)])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_back_ends_equal_the_reference(
    backend: str, heads: int, kv_heads: int, head_dim: int, bidirectional: bool
) -> None:
    spec = AttentionSpec(heads, kv_heads, head_dim, 0.11, (None, 24, 200, 5))
    for seed in range(4):
        chunks = draw_chunks(np.random.default_rng(seed), bidirectional)
        expected, *expected_pages = attend_all(ReferenceBackend, spec, chunks, torch.float32, seed)
        actual, *pages = attend_all(BACKENDS[backend], spec, chunks, torch.float32, seed)
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=2e-6)
        assert all(
            torch.equal(a, b)
            for a, b in zip(pages[0] + pages[1], expected_pages[0] + expected_pages[1], strict=True)
        )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("head_dim", [16, 64, 80, 128])
def test_in_bfloat16_back_ends_are_within_its_rounding_of_the_reference(backend: str, head_dim: int) -> None:
    spec = AttentionSpec(6, 2, head_dim, 0.125, (None, 24))
    chunks = draw_chunks(np.random.default_rng(5), True)
    expected, *_ = attend_all(ReferenceBackend, spec, chunks, torch.bfloat16, 5)
    actual, *_ = attend_all(BACKENDS[backend], spec, chunks, torch.bfloat16, 5)
    torch.testing.assert_close(actual, expected, rtol=2e-2, atol=1e-2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_long_contexts_are_split_and_joined(backend: str) -> None:
    """Past 256 keys the native back end works in parts; windows and threads must not show."""
    spec = AttentionSpec(4, 2, 32, 0.2, (None, 300, 257))
    rng = np.random.default_rng(2)
    tables = rng.permutation(NUM_BLOCKS).tolist()
    chunks = [Chunk(511, 512, tables[:32]), Chunk(470, 473, tables[32:62], [(471, 473)])]
    expected, *_ = attend_all(ReferenceBackend, spec, chunks, torch.float32, 1)
    actual, *_ = attend_all(BACKENDS[backend], spec, chunks, torch.float32, 1)
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("window", [None, 30])
@pytest.mark.parametrize("chunk", [Chunk(0, 90, range(6)), Chunk(50, 140, range(9), [(60, 100)])])
def test_sdpa_never_has_more_scores_than_it_may(
    chunk: Chunk, window: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long chunk behind a long prefix would have gigabytes of them."""
    spec = AttentionSpec(4, 2, 16, 0.2, (window,))
    scores = []

    def counted(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **options: Any) -> torch.Tensor:
        scores.append(q.shape[1] * q.shape[2] * k.shape[2])
        return scaled_dot_product_attention(q, k, v, **options)

    monkeypatch.setattr(sdpa, "scaled_dot_product_attention", counted)
    monkeypatch.setattr(SdpaBackend, "scores_at_once", 10 * 4 * 140)
    actual, *_ = attend_all(SdpaBackend, spec, [chunk], torch.float32, 1)
    assert len(scores) > 4
    assert max(scores) <= 10 * 4 * 140
    expected, *_ = attend_all(ReferenceBackend, spec, [chunk], torch.float32, 1)
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=2e-6)


def test_threads_do_not_show() -> None:
    spec = AttentionSpec(4, 2, 32, 0.2, (None,))
    chunks = [Chunk(700, 701, list(range(44))), Chunk(3, 4, [50])]
    one, two = (
        attend_all(lambda *a, n=n: NativeOnPlainPages(*a, Library(n)), spec, chunks, torch.bfloat16, 1)[0]
        for n in (1, 2)
    )
    assert torch.equal(one, two)


def test_what_the_native_back_end_cannot_do_is_refused() -> None:
    for head_dim, dtype in ((24, torch.float32), (32, torch.float16)):
        spec = AttentionSpec(2, 1, head_dim, 1.0, (None,))
        keys, values = make_pages(spec, dtype, 0)
        with pytest.raises(ValueError, match="native"):
            NativeBackend(spec, keys, values, Library(1))


def test_reference_equals_attention_row_by_row() -> None:
    spec = AttentionSpec(4, 2, 8, 0.3, (7,))
    chunk = Chunk(20, 33, [3, 1, 2], [(24, 30)])
    output, keys, values = attend_all(ReferenceBackend, spec, [chunk], torch.float32, 0)
    generator = torch.Generator().manual_seed(1)
    q = torch.randn(13, 4, 8, generator=generator)
    flat_keys, flat_values = (pages[0][[3, 1, 2]].flatten(0, 1) for pages in (keys, values))
    for row, position in enumerate(range(20, 33)):
        in_span = 24 <= position < 30
        seen = range(min(position - 6, 24) if in_span else position - 6, 30 if in_span else position + 1)
        for head in range(4):
            scores = torch.stack([q[row, head] @ flat_keys[j, head // 2] for j in seen]) * 0.3
            expected = scores.softmax(0) @ torch.stack([flat_values[j, head // 2] for j in seen])
            torch.testing.assert_close(output[0, row, head], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_row_does_not_depend_on_its_batch(backend: str) -> None:
    spec = AttentionSpec(6, 2, 64, 0.125, (None, 16))
    chunks = draw_chunks(np.random.default_rng(11), False)
    assert len(chunks) > 1
    together, keys, values = attend_all(BACKENDS[backend], spec, chunks, torch.bfloat16, 3)
    generator = torch.Generator().manual_seed(4)
    plan = StepPlan(chunks)
    for layer in range(spec.num_layers):
        q = torch.randn(plan.num_rows, 6, 64, generator=generator).bfloat16()
        k, v = (torch.randn(plan.num_rows, 2, 64, generator=generator).bfloat16() for _ in range(2))
        for index, chunk in enumerate(chunks):
            rows = slice(plan.row_starts[index], plan.row_starts[index + 1])
            alone = (
                BACKENDS[backend](spec, keys, values).plan([chunk]).attend(layer, q[rows], k[rows], v[rows])
            )
            assert torch.equal(alone, together[layer, rows])


@pytest.mark.parametrize("backend", BACKENDS)
def test_stale_pages_never_leak_into_a_result(backend: str) -> None:
    """Blocks are recycled as they are: a NaN left behind by another sequence is not read, masked or not."""
    spec = AttentionSpec(2, 1, 16, 0.25, (None, 4))
    for chunk in (Chunk(0, 20, [1, 2]), Chunk(17, 18, [1, 2]), Chunk(14, 17, [1, 2]), Chunk(16, 30, [1, 2])):
        keys, values = make_pages(spec, torch.float32, 0)
        for pages in keys + values:
            pages[2, chunk.end - BLOCK_SIZE :] = float("nan")
        size = chunk.end - chunk.start
        planned = BACKENDS[backend](spec, keys, values).plan([chunk])
        for layer in range(2):
            out = planned.attend(
                layer, torch.randn(size, 2, 16), torch.randn(size, 1, 16), torch.randn(size, 1, 16)
            )
            assert out.isfinite().all()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 70), st.integers(1, 50), st.one_of(st.none(), st.integers(1, 40)), st.data())
def test_key_ranges_follow_the_rule(start: int, size: int, window: int | None, data: st.DataObject) -> None:
    end = start + size
    cuts = sorted(data.draw(st.sets(st.integers(0, end), max_size=4)))
    spans = list(zip(cuts[::2], cuts[1::2], strict=False))
    first, until = key_ranges(Chunk(start, end, [], spans), window)
    for row, position in enumerate(range(start, end)):
        ends = [e for s, e in spans if s <= position < e]
        seen = {j for j in range(*ends or [position + 1]) if window is None or position - j < window}
        assert set(range(first[row], until[row])) == seen


@pytest.mark.parametrize("window", [None, 7])
def test_the_ranges_of_a_step_are_those_of_its_chunks(window: int | None) -> None:
    for seed in range(5):
        chunks = draw_chunks(np.random.default_rng(seed), True)
        chunks += [Chunk(9, 10, [0], [(2, 9), (10, 12)]), Chunk(9, 10, [0], [(9, 10)])]
        parts = [key_ranges(chunk, window) for chunk in chunks]
        for found, expected in zip(step_ranges(chunks, window), zip(*parts, strict=True), strict=True):
            assert found.dtype == np.int32
            assert np.array_equal(found, np.concatenate(expected))


def test_a_cut_bidirectional_span_is_refused() -> None:
    with pytest.raises(ValueError, match="cut"):
        key_ranges(Chunk(0, 8, [0], [(4, 12)]), None)


def test_slots_follow_the_block_table() -> None:
    plan = StepPlan([Chunk(14, 34, [5, 9, 2]), Chunk(16, 17, [7, 3])])
    expected = [5 * 16 + 14, 5 * 16 + 15, *range(9 * 16, 10 * 16), 2 * 16, 2 * 16 + 1, 3 * 16]
    assert plan.slots.tolist() == expected
    assert plan.row_starts == [0, 20, 21]
