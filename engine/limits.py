"""What one step, and one request, may take at most."""

from typing import NamedTuple


class Limits(NamedTuple):
    """Resolved from the configuration, the model and the machine when the engine starts.

    num_pool_tokens: tokens that the whole, empty pool holds. Others as in `EngineConfig`.
    """

    vocab_size: int
    max_model_len: int
    num_pool_tokens: int
    encoder_cache_bytes: int
    max_num_seqs: int
    max_num_batched_tokens: int
    max_prefill_tokens_beside_decodes: int
    max_encoder_tokens: int
    prepared_media_bytes: int

    @property
    def max_indivisible_tokens(self) -> int:
        """The oldest prefill finds this much room in any step, since every other sequence takes one token
        before it."""
        return self.max_num_batched_tokens - self.max_num_seqs + 1
