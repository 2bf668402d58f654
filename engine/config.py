"""What an engine is told when it starts: one structure, handed to its process as JSON. No torch here."""

import msgspec

from kvcache.sequence import BLOCK_SIZE


class EngineConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of one engine. Sizes in bytes; 0 or "auto" where the engine is to decide from the model and
    the machine."""

    model: str
    """Checkpoint directory or hub id."""
    load_format: str = "auto"
    """"auto": weights of the checkpoint; "random": only its configuration."""
    dtype: str = "auto"
    device: str = "auto"
    attention_backend: str = "auto"
    cuda_graphs: bool = True
    """Record decode steps on a GPU, where that works."""
    kv_cache_bytes: int = 0
    encoder_cache_bytes: int = 0
    prepared_media_bytes: int = 512 << 20
    """Prepared tensors asked for ahead of their use. What runs next is asked for beyond this, if need be."""
    max_num_seqs: int = 64
    max_num_batched_tokens: int = 2048
    max_prefill_tokens_beside_decodes: int = 512
    """While answers are being written, prompts get at most this much of a step, and the encoder as many media
    tokens beyond its first item: it bounds the gap between two tokens."""
    max_encoder_tokens: int = 4096
    """Media tokens encoded in one step, beyond the first item."""
    max_model_len: int = 0
    """0: what the checkpoint was made for."""
    num_threads: int = 0
    """Of the step, on a CPU. 0: see `engine.threads`."""
    deterministic: bool = False
    """Refuse to start where the back end's results depend on what is computed beside them."""
    debug: bool = False
    """Check the tables whenever the engine is idle."""

    def __post_init__(self) -> None:
        if self.max_num_seqs < 1 or self.max_num_batched_tokens < 2 * self.max_num_seqs:
            raise ValueError("max_num_batched_tokens must be at least twice max_num_seqs, and both positive")
        if self.max_prefill_tokens_beside_decodes < BLOCK_SIZE:
            raise ValueError(f"max_prefill_tokens_beside_decodes must be at least {BLOCK_SIZE}")
