"""However a prompt is cut and whoever is beside it, the runner's tokens are those of transformers."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from engine.attention.sdpa import SdpaBackend
from engine.config import EngineConfig
from engine.messages import SamplingParams
from engine.request import Sequence
from engine.runner import Runner, build_runner
from engine.step import EncodeItem, RowFault, SampledToken, StepRow
from kvcache.encodings import EncodingId
from kvcache.keys import MediaKey
from kvcache.spans import MediaSpan
from models.interface import AttentionSpec, EncoderInput, ForwardBatch, PagedAttention
from models.processing.base import MediaLayout
from tests.engine.sequences import make_sequence
from tests.engine.tiny_llama import TextModel, tiny_pair

NUM_BLOCKS = 64
PROMPTS = [[5, 9, 77, 3], list(range(20, 85)), [1], list(range(60, 27, -1))]
NUM_NEW = 12


def config(**changes) -> EngineConfig:
    return EngineConfig(model="tiny", num_threads=1, **changes)


@pytest.fixture(autouse=True)
def _threads_as_they_were():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def pair():
    return tiny_pair()


@pytest.fixture(scope="module")
def expected(pair) -> list[list[int]]:
    return [
        pair.reference.generate(
            torch.tensor([prompt]), max_new_tokens=NUM_NEW, do_sample=False, eos_token_id=None, pad_token_id=0
        )[0, len(prompt) :].tolist()
        for prompt in PROMPTS
    ]


def run(runner: Runner, sequences: list[Sequence], chunk: Callable[[int], int], num_new: int) -> list[list]:
    """Rounds over all sequences at once, `chunk(index)` prompt tokens each, until all have num_new tokens."""
    free = iter(np.random.default_rng(0).permutation(NUM_BLOCKS).tolist())
    tables: list[list[int]] = [[] for _ in sequences]
    results: list[list] = [[] for _ in sequences]
    while any(s.num_output_tokens < num_new for s in sequences):
        rows = []
        for index, sequence in enumerate(sequences):
            if sequence.num_output_tokens == num_new:
                continue
            start = sequence.num_computed_tokens
            end = min(start + chunk(index), len(sequence.tokens))
            while len(tables[index]) * 16 < end:
                tables[index].append(next(free))
            rows.append(StepRow(sequence, start, end, tables[index], end == len(sequence.tokens)))
        sampled = runner.execute(rows)
        for sequence, _, end, _, samples in rows:
            sequence.num_computed_tokens = end
            assert (sequence.number in sampled) == samples
            if samples:
                result = sampled[sequence.number]
                assert isinstance(result, SampledToken)
                sequence.tokens.append(result.token_id)
                results[sequences.index(sequence)].append(result)
    return results


def greedy(num_top_logprobs: int | None = None) -> SamplingParams:
    return SamplingParams(max_tokens=NUM_NEW, temperature=0.0, num_top_logprobs=num_top_logprobs)


@pytest.mark.parametrize("backend", ["reference", "sdpa", "auto"])
@pytest.mark.parametrize("chunk", [1000, 16, 7, 1])
def test_tokens_equal_those_of_transformers(pair, expected, backend: str, chunk: int) -> None:
    runner = build_runner(pair.model, config(attention_backend=backend), NUM_BLOCKS)
    results = run(runner, [make_sequence(p, greedy()) for p in PROMPTS], lambda index: chunk + index, NUM_NEW)
    assert [[r.token_id for r in row] for row in results] == expected


@pytest.mark.slow
def test_tokens_from_interpreted_triton_equal_those_of_transformers(pair, expected) -> None:
    pytest.importorskip("triton", minversion="3.8")
    runner = build_runner(pair.model, config(attention_backend="triton"), NUM_BLOCKS)
    results = run(runner, [make_sequence(p, greedy()) for p in PROMPTS], lambda index: 7 + index, NUM_NEW)
    assert [[r.token_id for r in row] for row in results] == expected


@pytest.mark.parametrize(("kind", "changes"), [("qwen2", {}), ("qwen3", {"num_key_value_heads": 1})])
def test_logprobs_equal_those_of_transformers(kind: str, changes: dict) -> None:
    model, reference = tiny_pair(kind, **changes)
    runner = build_runner(model, config(), NUM_BLOCKS)
    prompt = PROMPTS[1]
    (results,) = run(runner, [make_sequence(prompt, greedy(num_top_logprobs=5))], lambda _: 24, 4)
    ids = torch.tensor([prompt + [r.token_id for r in results]])
    with torch.no_grad():
        logprobs = reference(ids).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
    for result, row in zip(results, logprobs, strict=True):
        assert result.token_id == int(row.argmax())
        top = row.topk(5)
        assert [i for i, _ in result.logprobs.top] == top.indices.tolist()
        assert [v for _, v in result.logprobs.top] == pytest.approx(top.values.tolist(), abs=1e-4)


def test_sequences_share_blocks_written_in_the_same_step(pair, expected) -> None:
    """The second sequence's first block is one that the first writes in this very step."""
    runner = build_runner(pair.model, config(), NUM_BLOCKS)
    first, second = (make_sequence(PROMPTS[1], greedy()) for _ in range(2))
    rows = [
        StepRow(first, 0, 65, [3, 4, 5, 6, 7], True),
        StepRow(second, 16, 65, [3, 8, 9, 10, 11], True),
    ]
    sampled = runner.execute(rows)
    assert {r.token_id for r in sampled.values() if isinstance(r, SampledToken)} == {expected[1][0]}


def test_non_finite_logits_fail_their_row_alone(pair, expected, monkeypatch) -> None:
    runner = build_runner(pair.model, config(), NUM_BLOCKS)
    original = pair.model.logits

    def poisoned(hidden: torch.Tensor) -> torch.Tensor:
        logits = original(hidden)
        logits[1, 0] = float("nan")
        return logits

    monkeypatch.setattr(pair.model, "logits", poisoned)
    sequences = [make_sequence(p, greedy()) for p in PROMPTS[:3]]
    sampled = runner.execute(
        [StepRow(s, 0, len(s.tokens), range(5 * i, 5 * i + 5), True) for i, s in enumerate(sequences)]
    )
    assert isinstance(sampled[sequences[1].number], RowFault)
    assert sampled[sequences[0].number] == SampledToken(expected[0][0], None)
    assert sampled[sequences[2].number] == SampledToken(expected[2][0], None)


class MediaModel(TextModel):
    """Encodes a picture as its rows of `values`; remembers the batches that it was given."""

    def __init__(self, window: int | None = None) -> None:
        self.attention = AttentionSpec(2, 1, 8, 1.0, (4, window))
        self.dtype, self.device = torch.float32, torch.device("cpu")
        self.encoding_width = 3
        self.batches: list[ForwardBatch] = []

    def encode(self, kind: str, items: list[EncoderInput]) -> list[torch.Tensor]:
        (item,) = items
        return [item.arrays["values"]]

    def forward(self, batch: ForwardBatch, attention: PagedAttention) -> torch.Tensor:
        copied = ForwardBatch(batch.ids.clone(), batch.positions.clone(), list(batch.media), batch.read)
        self.batches.append(copied)
        return torch.zeros(len(batch.ids if batch.read is None else batch.read), 4)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return torch.zeros(len(hidden), 10)


def media_runner(window: int | None = None) -> tuple[MediaModel, Runner]:
    model = MediaModel(window)
    pages = [torch.zeros(8, 16, 1, 8) for _ in range(4)]
    return model, Runner(model, SdpaBackend(model.attention, pages[:2], pages[2:]), None)


@pytest.mark.parametrize(("window", "read"), [(None, [1, 5]), (4, None)])
def test_only_last_rows_of_chunks_are_read_where_they_see_all_before_them(
    window: int | None, read: list[int] | None
) -> None:
    """Under a window what isn't finite in a chunk need not reach its last row."""
    model, runner = media_runner(window)
    first, second = make_sequence([1] * 2), make_sequence([1] * 9)
    results = runner.execute([StepRow(first, 0, 2, [0], True), StepRow(second, 0, 4, [1], False)])
    assert list(results) == [first.number]
    wanted = model.batches[0].read
    assert (None if wanted is None else wanted.tolist()) == read


def item(key: bytes, values: np.ndarray, num_tokens: int | None = None) -> EncodeItem:
    values.flags.writeable = False  # as arrays from the wire are
    layout = MediaLayout(len(values) if num_tokens is None else num_tokens)
    return EncodeItem(EncodingId(b"", MediaKey(key)), "image", layout, {"values": values})


def test_encodings_are_sliced_by_offset_and_laid_at_their_rows() -> None:
    model, runner = media_runner()
    values = {key: np.random.default_rng(ord(key)).random((6, 3), dtype=np.float32) for key in (b"a", b"b")}
    for key, array in values.items():
        runner.encode(item(key, array))
    # Content a in two runs (tokens 0..2 and 2..6) around a break token, then b from its token 1 on.
    spans = (
        MediaSpan(1, 3, MediaKey(b"a")),
        MediaSpan(4, 8, MediaKey(b"a"), 2),
        MediaSpan(9, 14, MediaKey(b"b"), 1),
    )
    positions = np.stack([np.arange(16), np.arange(16) * 2])
    pictured = make_sequence(
        list(range(16)), spans=spans, positions=positions, next_position=99, generated=(7,)
    )
    plain = make_sequence([4, 4], positions=np.array([[0, 1], [0, 1]]), next_position=2)
    runner.execute([StepRow(plain, 0, 2, [0], True), StepRow(pictured, 6, 12, [1], False)])
    runner.execute([StepRow(pictured, 12, 17, [1, 2], True)])
    first, second = model.batches
    assert first.ids.tolist() == [4, 4, 6, 7, 8, 9, 10, 11]
    assert first.positions.tolist() == [[0, 1, *range(6, 12)], [0, 1, *range(12, 24, 2)]]
    assert [(m.start, m.end) for m in first.media] == [(2, 4), (5, 8)]
    np.testing.assert_array_equal(first.media[0].encoding, values[b"a"][4:6])
    np.testing.assert_array_equal(first.media[1].encoding, values[b"b"][1:4])
    assert second.positions[:, -1].tolist() == [99, 99]
    pictured.tokens.append(8)
    runner.execute([StepRow(pictured, 17, 18, [1, 2], True), StepRow(plain, 1, 2, [0], True)])
    assert model.batches[-1].ids.tolist() == [8, 4]
    assert model.batches[-1].positions.tolist() == [[100, 1], [100, 1]]
    assert [(m.start, m.end) for m in second.media] == [(0, 2)]
    np.testing.assert_array_equal(second.media[0].encoding, values[b"b"][4:6])


def test_what_no_row_may_read_is_not_held() -> None:
    model, runner = media_runner()
    good, short = (
        item(b"a", np.ones((2, 3), np.float32)),
        item(b"b", np.ones((2, 3), np.float32), num_tokens=5),
    )
    broken = item(b"c", np.full((2, 3), np.nan, np.float32))
    runner.encode(good)
    for item_at_fault, why in ((short, "instead of"), (broken, "not finite")):
        with pytest.raises(ValueError, match=why):
            runner.encode(item_at_fault)
    sequence = make_sequence([0, 0], spans=(MediaSpan(0, 2, MediaKey(b"a")),))
    runner.execute([StepRow(sequence, 0, 2, [0], True)])
    assert model.batches[0].media[0].encoding.tolist() == [[1, 1, 1]] * 2
    runner.drop_encodings([good.encoding])
    with pytest.raises(KeyError):
        runner.execute([StepRow(sequence, 0, 2, [0], True)])


def test_the_size_of_an_encoding() -> None:
    _, runner = media_runner()
    assert runner.encoding_size_bytes(MediaLayout(10)) == 10 * 3 * 4


def test_an_unknown_back_end_is_refused(pair) -> None:
    with pytest.raises(ValueError, match="attention_backend"):
        build_runner(pair.model, config(attention_backend="magic"), NUM_BLOCKS)
