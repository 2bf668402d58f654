"""The GPU's back end equals the reference: its kernels run in Triton's interpreter, on the CPU.

That shows arithmetic, masks and addresses; it shows nothing of a GPU.
"""

import itertools

import pytest
import torch

pytest.importorskip("triton", minversion="3.8")  # older interpreters fail with numpy 2.4

from engine.attention.base import Chunk
from engine.attention.choice import best_on_gpu, choose_backend, settled
from engine.attention.reference import ReferenceBackend
from engine.attention.sdpa import SdpaBackend
from engine.attention.self_check import Disagreement, check_agreement
from engine.attention.triton_backend import TritonBackend
from engine.attention.triton_kernels import tiles
from models.interface import AttentionSpec
from tests.engine.test_attention import attend_all, make_pages

CPU = torch.device("cpu")
MIXED = [
    Chunk(40, 41, [7, 3, 9]),
    Chunk(0, 19, [4, 1]),
    Chunk(21, 26, [50, 12], [(22, 25)]),  # a tail behind a prefix
    Chunk(5, 6, [30]),
    Chunk(3, 17, [20, 21], [(2, 4), (9, 17)]),
]


@pytest.fixture(autouse=True)
def short_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are shared out from 20 on, and not at the tiles' borders."""
    monkeypatch.setattr(tiles, "PART_KEYS", 20)


@pytest.mark.parametrize(
    ("dtype", "rtol", "atol"),
    [(torch.float32, 1e-5, 2e-6), (torch.float16, 2e-3, 1e-3), (torch.bfloat16, 2e-2, 1e-2)],
)
@pytest.mark.parametrize(("heads", "kv_heads", "head_dim"), [(4, 4, 16), (6, 2, 80), (40, 1, 128)])
def test_a_mixed_step_equals_the_reference(
    heads: int, kv_heads: int, head_dim: int, dtype: torch.dtype, rtol: float, atol: float
) -> None:
    spec = AttentionSpec(heads, kv_heads, head_dim, 0.11, (None, 7))
    expected, *expected_pages = attend_all(ReferenceBackend, spec, MIXED, dtype, 1)
    actual, *pages = attend_all(TritonBackend, spec, MIXED, dtype, 1)
    torch.testing.assert_close(actual, expected, rtol=rtol, atol=atol)
    for page, expected_page in zip(itertools.chain(*pages), itertools.chain(*expected_pages), strict=True):
        assert torch.equal(page, expected_page)


def test_a_chunk_of_several_tiles_equals_the_reference() -> None:
    spec = AttentionSpec(8, 1, 16, 0.2, (None, 30))
    chunks = [Chunk(10, 90, list(range(6)), [(12, 30)])]
    expected, *_ = attend_all(ReferenceBackend, spec, chunks, torch.float32, 2)
    actual, *_ = attend_all(TritonBackend, spec, chunks, torch.float32, 2)
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("workspace_bytes", [1, 1 << 20])
def test_a_row_does_not_depend_on_its_batch(workspace_bytes: int, monkeypatch) -> None:
    monkeypatch.setattr(tiles, "WORKSPACE_BYTES", workspace_bytes)
    spec = AttentionSpec(2, 1, 16, 0.25, (None,))
    rows = sum(chunk.end - chunk.start for chunk in MIXED)
    q, k, v = (torch.randn(rows, heads, 16) for heads in (2, 1, 1))
    keys, values = make_pages(spec, torch.float32, 3)
    backend = TritonBackend(spec, keys, values)
    together = backend.plan(MIXED).attend(0, q, k, v)
    at = 0
    for chunk in MIXED:
        mine = slice(at, at + chunk.end - chunk.start)
        assert torch.equal(backend.plan([chunk]).attend(0, q[mine], k[mine], v[mine]), together[mine])
        at = mine.stop


def test_what_exceeds_the_workspace_takes_more_launches_or_longer_parts(monkeypatch) -> None:
    spec = AttentionSpec(2, 1, 16, 0.25, (None, 30))
    chunks = [*(Chunk(70 + i, 71 + i, [i, *range(20, 24)]) for i in range(9)), Chunk(60, 70, range(10, 15))]
    roomy, *_ = attend_all(TritonBackend, spec, chunks, torch.float32, 4)
    monkeypatch.setattr(tiles, "WORKSPACE_BYTES", 1)
    backend = TritonBackend(spec, *make_pages(spec, torch.float32, 4))
    assert len(backend.parts) == 2 * max(tile.queries for tile in backend.tiles)
    planned = backend.plan(chunks)
    for sight in planned._sights.values():
        for tile, items, _ in sight.launches:
            assert len(items.work) * tile.queries <= len(backend.parts)
    assert [len(items.work) for _, items, _ in planned._sights[None].launches] == [32, 4, 1]
    tight, *_ = attend_all(TritonBackend, spec, chunks, torch.float32, 4)
    torch.testing.assert_close(tight, roomy, rtol=1e-5, atol=2e-6)


def test_rows_may_be_slices_of_one_product() -> None:
    spec = AttentionSpec(2, 1, 16, 0.25, (None,))
    chunks = [Chunk(0, 3, [5]), Chunk(1, 2, [6])]
    product = torch.randn(4, 4, 16)
    q, k, v = product[:, :2], product[:, 2:3], product[:, 3:]
    expected, actual = (
        backend(spec, *make_pages(spec, torch.float32, 0)).plan(chunks).attend(0, q, k, v)
        for backend in (ReferenceBackend, TritonBackend)
    )
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("chunk", [Chunk(0, 20, [1, 2]), Chunk(17, 18, [1, 2]), Chunk(22, 26, [1, 2])])
def test_stale_pages_never_leak_into_a_result(chunk: Chunk) -> None:
    spec = AttentionSpec(2, 1, 16, 0.25, (None, 4))
    keys, values = make_pages(spec, torch.float32, 0)
    for pages in keys + values:
        pages[2, chunk.end - 16 :] = pages[0] = float("nan")
    planned = TritonBackend(spec, keys, values).plan([chunk])
    size = chunk.end - chunk.start
    for layer in range(2):
        out = planned.attend(layer, torch.randn(size, 2, 16), *torch.randn(2, size, 1, 16))
        assert out.isfinite().all()


@pytest.mark.parametrize("chunk", [Chunk(0, 3, [1]), Chunk(30, 31, [1, 2]), Chunk(30, 34, [1, 2, 3])])
def test_values_that_are_not_finite_show(chunk: Chunk) -> None:
    """A request with a poisoned key must fail, not answer."""
    spec = AttentionSpec(2, 1, 16, 0.25, (None,))
    keys, values = make_pages(spec, torch.float32, 0)
    size = chunk.end - chunk.start
    key = torch.randn(size, 1, 16)
    key[0] = float("nan")
    out = (
        TritonBackend(spec, keys, values)
        .plan([chunk])
        .attend(0, torch.randn(size, 2, 16), key, torch.randn(size, 1, 16))
    )
    assert out.isnan().any(-1).all()


def test_what_no_kernel_takes_is_refused() -> None:
    for spec, dtype in (
        (AttentionSpec(1, 1, 512, 1.0, (None,)), torch.float32),
        (AttentionSpec(128, 1, 16, 1.0, (None,)), torch.float32),
        (AttentionSpec(1, 1, 16, 1.0, (None,)), torch.float64),
    ):
        with pytest.raises(ValueError, match="triton"):
            choose_backend("triton", spec, *make_pages(spec, dtype, 0), 1)


def test_it_is_taken_by_name() -> None:
    spec = AttentionSpec(1, 1, 16, 1.0, (None,))
    assert choose_backend("triton", spec, *make_pages(spec, torch.float32, 0), 1).name == "triton"


class Wrong(SdpaBackend):
    """Sees one key less under a window."""

    def plan(self, chunks):
        self.spec = self.spec._replace(windows=tuple(w and w - 1 for w in self.spec.windows))
        return super().plan(chunks)


def test_auto_takes_it_where_it_agrees_with_sdpa(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "PART_KEYS", 256)
    spec = AttentionSpec(2, 1, 16, 0.25, (None,))
    assert best_on_gpu(spec, torch.float32, CPU) == "triton"


def test_only_auto_on_a_gpu_is_to_be_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.attention.choice.best_on_gpu", lambda *_: "best")
    spec = AttentionSpec(2, 1, 16, 0.25, (None,))
    cuda = torch.device("cuda")
    assert settled("auto", spec, torch.float32, cuda) == "best"
    assert settled("sdpa", spec, torch.float32, cuda) == "sdpa"
    assert settled("auto", spec, torch.float32, CPU) == "auto"


@pytest.mark.parametrize("fault", ["a driver's error", "wrong numbers"])
def test_auto_leaves_it_where_it_fails_the_self_check(fault: str, monkeypatch, caplog) -> None:
    if fault == "wrong numbers":
        monkeypatch.setattr("engine.attention.triton_backend.TritonBackend", Wrong)
    else:
        monkeypatch.setattr(TritonBackend, "plan", lambda *_: 1 / 0)
    spec = AttentionSpec(2, 1, 16, 0.25, (None,))
    assert best_on_gpu(spec, torch.float32, CPU) == "sdpa"
    assert len(caplog.records) == 1
    assert "sdpa, not triton, because" in caplog.text


def test_the_self_check_tells_right_from_wrong() -> None:
    spec = AttentionSpec(2, 1, 16, 0.25, (None,))
    check_agreement(ReferenceBackend, SdpaBackend, spec, torch.bfloat16, CPU)
    with pytest.raises(Disagreement, match="differ"):
        check_agreement(Wrong, SdpaBackend, spec, torch.bfloat16, CPU)
