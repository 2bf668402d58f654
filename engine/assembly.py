"""From a configuration to an engine that serves the model: the one place that knows every part."""

from collections.abc import Callable

import msgspec
import torch

from engine.allocator import return_freed_memory
from engine.attention.choice import settled
from engine.config import EngineConfig
from engine.cuda_graph import CudaRecorder
from engine.decode_graphs import Recorder
from engine.driver import Outbox
from engine.grammar import GrammarCompiler, Vocabulary
from engine.graph_check import recorded_steps
from engine.limits import Limits
from engine.loop import Engine
from engine.memory import encoder_cache_bytes, is_out_of_memory, num_blocks
from engine.messages import EngineInfo
from engine.runner import build_runner
from engine.warm_up import warm_up
from kvcache.encodings import EncodingCache
from kvcache.manager import KVCacheManager
from kvcache.sequence import BLOCK_SIZE
from models.checkpoint import Checkpoint
from models.interface import ServedModel
from models.loader import load_model


def assemble(
    config: EngineConfig, outbox: Outbox, on_progress: Callable[[int, int], None] | None = None
) -> tuple[Engine, EngineInfo]:
    """Load the model and build everything around it. on_progress: (bytes done, bytes in all) of the weights.

    ValueError or CheckpointError where the settings, the checkpoint and the machine don't go together.
    """
    checkpoint = Checkpoint.open(config.model)
    device = config.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("device is cuda, but there is no GPU that torch could use")
    if config.load_format not in ("auto", "random"):
        raise ValueError(f"load_format must be auto or random, not {config.load_format!r}")
    model = load_model(
        checkpoint,
        dtype=config.dtype,
        device=device,
        load_format="random" if config.load_format == "random" else "auto",
        on_progress=on_progress,
    )
    return around(
        model,
        config,
        outbox,
        GrammarCompiler(lambda: Vocabulary.of_checkpoint(checkpoint.path, model.vocab_size)),
    )


def around(
    model: ServedModel, config: EngineConfig, outbox: Outbox, grammars: GrammarCompiler
) -> tuple[Engine, EngineInfo]:
    """The engine for a model that is loaded already."""
    if config.max_model_len > model.max_positions:
        raise ValueError(
            f"max_model_len is {config.max_model_len}, "
            f"but the model was made for {model.max_positions} tokens"
        )
    backend = settled(config.attention_backend, model.attention, model.dtype, model.device)
    config = msgspec.structs.replace(
        config, attention_backend=backend, encoder_cache_bytes=encoder_cache_bytes(model, config)
    )
    blocks = num_blocks(model, config)
    num_pool_tokens = blocks * BLOCK_SIZE
    limits = Limits(
        vocab_size=model.vocab_size,
        max_model_len=min(config.max_model_len or model.max_positions, num_pool_tokens + 1),
        num_pool_tokens=num_pool_tokens,
        encoder_cache_bytes=config.encoder_cache_bytes,
        max_num_seqs=config.max_num_seqs,
        max_num_batched_tokens=config.max_num_batched_tokens,
        max_prefill_tokens_beside_decodes=config.max_prefill_tokens_beside_decodes,
        max_encoder_tokens=config.max_encoder_tokens,
        prepared_media_bytes=config.prepared_media_bytes,
    )
    runner = build_runner(model, config, blocks)
    if config.deterministic and not runner.is_row_invariant:
        raise ValueError(
            f"deterministic: with {model.dtype} on the back end {runner.attention.name} the last bits of an "
            "answer depend on what is computed beside it; the fused layers of the back end native don't"
        )
    return_freed_memory()  # of weights that were packed
    if record := recorder(config, model.device):
        # Before the warm-up, which shows whether the device is still of use where recording failed.
        runner.graphs = recorded_steps(model, runner.attention, runner.pages, config.max_num_seqs, record)
    warm_up(runner, blocks)
    engine = Engine(
        runner,
        KVCacheManager(blocks),
        EncodingCache(config.encoder_cache_bytes),
        model.processing,
        limits,
        grammars,
        outbox.emit,
        flush=outbox.flush,
        fatal=(torch.AcceleratorError,),
        exhausted=is_out_of_memory,
        debug=config.debug,
    )
    info = EngineInfo(
        architecture=model.architecture,
        dtype=str(model.dtype).removeprefix("torch."),
        device=str(model.device),
        attention_backend=runner.attention.name,
        max_model_len=limits.max_model_len,
        num_blocks=blocks,
        block_size=BLOCK_SIZE,
        encoder_cache_bytes=config.encoder_cache_bytes,
        vocab_size=model.vocab_size,
    )
    return engine, info


def recorder(config: EngineConfig, device: torch.device) -> Recorder | None:
    """What decode steps are recorded with; None where they are not."""
    return CudaRecorder(device) if config.cuda_graphs and device.type == "cuda" else None
