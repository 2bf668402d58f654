"""Recorded decode steps give what launched ones give, whatever was recorded: see `recording` for how that is
told without a GPU."""

import itertools
import logging
from collections.abc import Callable, Iterator

import msgspec
import numpy as np
import pytest
import torch

pytest.importorskip("triton", minversion="3.8")  # older interpreters fail with numpy 2.4

from engine.assembly import around, recorder
from engine.attention.base import FixedBackend
from engine.attention.triton_kernels import tiles
from engine.config import EngineConfig
from engine.decode_graphs import MOST_ROWS, DecodeGraphs, DecodeStep, row_counts
from engine.driver import Outbox
from engine.grammar import GrammarCompiler
from engine.graph_check import recorded_step, recorded_steps
from engine.messages import SamplingParams
from engine.runner import Runner, build_runner
from engine.step import SampledToken, StepRow
from models.interface import ForwardBatch, PagedAttention
from tests.engine.graph_steps import NUM_BLOCKS, check_replays, some_step
from tests.engine.recording import HostWaits, TapeRecording
from tests.engine.sequences import make_sequence
from tests.live_bytes import LiveBytes
from tests.proof.families import model

FAMILIES = ("qwen2", "gemma3_text", "mistral", "qwen2_5_omni", "qwen3_vl")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keys are shared out from 32 on, and fewer programs than parts stride over them."""
    monkeypatch.setattr(tiles, "PART_KEYS", 32)
    monkeypatch.setattr(tiles, "FIXED_PROGRAMS", 6)
    monkeypatch.setattr("engine.graph_check.LENGTHS", (40, 1, 17))
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def triton_runner(name: str, num_blocks: int = NUM_BLOCKS) -> Runner:
    config = EngineConfig(model="", attention_backend="triton", num_threads=1)
    return build_runner(model(name, "triton"), config, num_blocks)


def recorded(runner: Runner, most_rows: int) -> DecodeGraphs:
    graphs = recorded_steps(runner.model, runner.attention, runner.pages, most_rows, TapeRecording)
    assert graphs is not None
    return graphs


def unchecked(runner: Runner, row_counts: tuple[int, ...]) -> DecodeGraphs:
    """Each recorded while rows of nobody are loaded."""
    recorded = {}
    for num_rows in row_counts:
        assert isinstance(runner.attention, FixedBackend)
        step = DecodeStep(runner.model, runner.attention, num_rows, NUM_BLOCKS)
        step.load(step.padded([], np.empty(0, np.int64), np.empty((step.num_axes, 0), np.int64)))
        recorded[num_rows] = step, TapeRecording(step.run)
    return DecodeGraphs(recorded)


@torch.inference_mode()
@pytest.mark.parametrize("name", FAMILIES)
def test_replays_equal_launches(name: str) -> None:
    runner = triton_runner(name)
    check_replays(runner, unchecked(runner, (1, 4)), 1e-5)


def decoded(runner: Runner) -> list[list[int]]:
    """Greedy tokens of three sequences of different lengths, one of which joins late."""
    greedy = SamplingParams(max_tokens=99, temperature=0.0)
    sequences = [make_sequence(list(range(5, 5 + n)), greedy) for n in (15, 31, 3)]
    tables = [[0, 1, 2], [3, 4, 5], [6, 7]]
    tokens: list[list[int]] = [[] for _ in sequences]
    for turn in range(4):
        rows = []
        for sequence, table in list(zip(sequences, tables, strict=True))[: 2 if turn < 2 else 3]:
            start, end = sequence.num_computed_tokens, len(sequence.tokens)
            rows.append(StepRow(sequence, start, end, table, True))
        sampled = runner.execute(rows)
        for row in rows:
            result = sampled[row.sequence.number]
            assert isinstance(result, SampledToken)
            row.sequence.num_computed_tokens = row.end
            row.sequence.tokens.append(result.token_id)
            tokens[sequences.index(row.sequence)].append(result.token_id)
    return tokens


def test_a_runner_decodes_the_same_with_and_without(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = triton_runner("qwen2")
    launched = decoded(runner)
    runner.graphs = recorded(runner, 3)
    assert runner.graphs.row_counts == [1, 2, 3]
    replays = []
    replay = TapeRecording.replay
    monkeypatch.setattr(TapeRecording, "replay", lambda self: replays.append(1) or replay(self))
    assert decoded(runner) == launched
    assert len(replays) == 2, "prompts are launched, steps of one token a row are replayed"


def test_an_engine_records_at_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.assembly.recorder", lambda *_: TapeRecording)
    config = EngineConfig(
        model="", attention_backend="triton", num_threads=1, max_num_seqs=2, kv_cache_bytes=1 << 20
    )
    engine, _ = around(
        model("qwen2", "triton"), config, Outbox(Nobody()), GrammarCompiler(lambda: pytest.fail("no grammar"))
    )
    runner = engine.runner
    assert isinstance(runner, Runner)
    assert runner.graphs is not None
    assert runner.graphs.row_counts == [1, 2]


def test_it_does_on_a_gpu_only_and_where_it_may() -> None:
    config = EngineConfig(model="")
    assert recorder(config, torch.device("cpu")) is None
    assert recorder(msgspec.structs.replace(config, cuda_graphs=False), torch.device("cuda")) is None


class Nobody:
    def receive(self, timeout_s: float) -> list:
        return []

    def send(self, events: list) -> None: ...


def failing(runner: Runner, forward: Callable, caplog: pytest.LogCaptureFixture, why: str) -> None:
    """Nothing is kept where the model's forward pass is this one, and one line of the log says why."""
    with pytest.MonkeyPatch.context() as patch, caplog.at_level(logging.INFO):
        patch.setattr(runner.model, "forward", forward)
        assert recorded_steps(runner.model, runner.attention, runner.pages, 1, TapeRecording) is None
    assert len(caplog.records) == 1
    assert caplog.text.count("CUDA graphs: none, because") == 1
    assert why in caplog.text


@pytest.mark.parametrize("only_keys", [False, True])
def test_a_number_that_was_baked_in_is_found(only_keys: bool, caplog: pytest.LogCaptureFixture) -> None:
    runner = triton_runner("qwen2")
    plain, calls = runner.model.forward, itertools.count()

    def forward(batch: ForwardBatch, attention: PagedAttention) -> torch.Tensor:
        """Positions by a number that only the host knows."""
        hidden = plain(batch._replace(positions=batch.positions + 5 * next(calls)), attention)
        return torch.zeros_like(hidden) if only_keys else hidden

    failing(runner, forward, caplog, "Disagreement: a replay differs")


@torch.inference_mode()
def test_the_most_rows_have_room_and_their_check_takes_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """A card may have room for its pages and hardly more."""
    runner = triton_runner("qwen2", 400)
    monkeypatch.setattr(runner.model, "forward", lambda batch, _: torch.zeros(len(batch.ids), 1))
    assert isinstance(runner.attention, FixedBackend)
    with LiveBytes() as live:
        recorded_step(runner.model, runner.attention, runner.pages, row_counts(1 << 20)[-1], TapeRecording)
    assert live.peak < 1.25 * runner.pages.pages.nbytes, "views of the pages count as all of them"


@pytest.mark.parametrize(
    "wait",
    [
        lambda hidden: hidden * hidden[0, 0].item(),
        lambda hidden: hidden[hidden[:, 0].nonzero()[:, 0]],
        lambda hidden: hidden if (hidden > 1e9).any() else hidden + 0,
    ],
    ids=["item", "nonzero", "bool"],
)
def test_a_forward_pass_that_waits_is_launched(wait: Callable, caplog: pytest.LogCaptureFixture) -> None:
    runner = triton_runner("qwen2")
    plain = runner.model.forward
    failing(runner, lambda *call: wait(plain(*call)), caplog, HostWaits.__name__)


def test_a_back_end_that_plans_anew_is_launched(caplog: pytest.LogCaptureFixture) -> None:
    runner = build_runner(
        model("qwen2", "sdpa"), EngineConfig(model="", attention_backend="sdpa", num_threads=1), NUM_BLOCKS
    )
    failing(runner, runner.model.forward, caplog, "the back end sdpa")


@torch.inference_mode()
def test_what_was_not_recorded_is_left_to_launching(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "FIXED_ITEMS", 3)
    runner = triton_runner("qwen2")
    graphs = unchecked(runner, (1, 2))

    def taken(*lengths: int) -> bool:
        return graphs.forward(*some_step(runner, lengths, 0)) is not None

    assert taken(20, 30)
    assert taken(90)
    assert not taken(90, 20), "four parts where there is room for three"
    assert not taken(1, 1, 1), "more rows than were recorded"
    chunks, batch = some_step(runner, (20,), 0)
    assert graphs.forward([chunks[0]._replace(start=18)], batch._replace(ids=np.array([1, 2]))) is None


@pytest.mark.parametrize("most", [1, 2, 3, 5, 8, 9, 64, 100, MOST_ROWS, 1 << 20])
def test_every_number_of_rows_has_a_step_that_wastes_little(most: int) -> None:
    counts = row_counts(most)
    assert counts == sorted(set(counts))
    assert counts[0] == 1
    assert counts[-1] == min(most, MOST_ROWS)
    for rows in range(1, counts[-1] + 1):
        taken = next(count for count in counts if count >= rows)
        assert (taken - rows) / taken < (0.25 if rows > 64 else 0.5)
    assert len(counts) <= 20
