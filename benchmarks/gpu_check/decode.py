"""A decode step of the whole decoder against the time to read its weights, and what the device does in it."""

import torch
from transformers import Qwen2Config

from benchmarks.decode_floor import SIZES, DecodeStep, weight_bytes
from benchmarks.gpu_check.clock import Call, Clock, Limits, limits
from benchmarks.gpu_check.record import Record
from benchmarks.gpu_check.sections import Work
from engine.cuda_graph import CudaRecorder
from kvcache.pages import kv_block_bytes
from models.decoder import Decoder
from models.decoder_config import DecoderConfig
from models.weights import RandomWeights

DTYPE = torch.bfloat16
BUSIEST = 10


@torch.inference_mode()
def measure(work: Work, record: Record) -> None:
    clock = Clock(torch.device(work.device), work.plan.cell_s)
    best = limits(clock, work.plan)
    record.add(context=work.plan.context)
    for size in work.plan.decode_sizes:
        config = DecoderConfig.from_text_config(Qwen2Config(**SIZES[size], tie_word_embeddings=True))
        _batches(size, Decoder(config, RandomWeights(0.02, DTYPE, work.device)), work, record, clock, best)


def _batches(size: str, decoder: Decoder, work: Work, record: Record, clock: Clock, best: Limits) -> None:
    floor_s = weight_bytes(decoder) / best.bytes_per_s
    for batch in work.plan.users:
        if not record.time_left_s:
            record.row("cells", size=size, batch=batch, error="no time left")
            continue
        step = DecodeStep(decoder, "auto", batch, work.plan.context, threads=1)
        cell = _cell(step, clock, floor_s, _kv_s(decoder.config, batch * work.plan.context, best))
        record.row("cells", size=size, batch=batch, backend=step.attention.name, **cell)
        if batch == work.plan.users[-1]:
            record.add(**{f"busiest, {size}, batch {batch}": busiest(step, clock.device)})


def _cell(step: DecodeStep, clock: Clock, floor_s: float, kv_s: float) -> dict:
    """Milliseconds: of a step as launched, of the same with its layers as the engine's CUDA graph, of
    planning it, of reading the weights and the keys and values of all sequences. graphs: "on", or why not."""
    launched_s, replayed_s, graphs = clock.seconds(step), float("nan"), "on"
    try:
        if clock.device.type != "cuda":
            raise ValueError("there is no GPU")
        step.record(CudaRecorder(clock.device))
        replayed_s = clock.seconds(step.replayed)
    except Exception as error:  # as where the engine records: launching is measured all the same
        graphs = f"none, because {type(error).__name__}: {error}"[:200]
    return {
        "graphs": graphs,
        "launched_ms": launched_s * 1e3,
        "graph_ms": replayed_s * 1e3,
        "plan_ms": clock.seconds(step.plan) * 1e3,
        "floor_ms": floor_s * 1e3,
        "kv_ms": kv_s * 1e3,
        "of_floor": floor_s / launched_s,
        "of_floor_graph": floor_s / replayed_s,
    }


def _kv_s(config: DecoderConfig, num_tokens: int, best: Limits) -> float:
    spec = config.attention
    size = kv_block_bytes(spec.num_layers, spec.num_kv_heads, spec.head_dim, DTYPE, block_size=1)
    return num_tokens * size / best.bytes_per_s


def busiest(call: Call, device: torch.device) -> dict:
    """What the device spends the time of one call on: number of kernels, their time, those that take most."""
    on_gpu = device.type == "cuda"
    activities = [torch.profiler.ProfilerActivity.CPU]
    if on_gpu:
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities) as profiler:
        call()
        if on_gpu:
            torch.cuda.synchronize()
    found = [
        (event.self_device_time_total if on_gpu else event.self_cpu_time_total, event)
        for event in profiler.key_averages()
        if (event.device_type.name == "CUDA") == on_gpu
    ]
    found.sort(key=lambda pair: -pair[0])
    return {
        "kernels": sum(event.count for _, event in found),
        "ms": sum(us for us, _ in found) / 1e3,
        "most": [{"name": event.key[:100], "count": event.count, "us": us} for us, event in found[:BUSIEST]],
    }
