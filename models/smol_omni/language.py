"""SmolLM2 under the names of Qwen2.5-Omni's text model, of which it is a special case.

Query, key and value have biases there, which are zero here; the rotary sections only say which axis a
frequency belongs to, and text has the same position on all three.
"""

from typing import Any

import numpy as np

from models.smol_omni.tokens import END, STOP

_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_BIASED = ("attn_q", "attn_k", "attn_v")
_SECTION_SHARES = (8, 12, 12)  # of 32, as in Qwen2.5-Omni


def text_config(metadata: dict[str, Any]) -> dict[str, Any]:
    """metadata: of the GGUF file."""
    width, heads = metadata["llama.embedding_length"], metadata["llama.attention.head_count"]
    head = width // heads
    rope = {
        "rope_type": "default",
        "rope_theta": metadata["llama.rope.freq_base"],
        "mrope_section": [share * head // 64 for share in _SECTION_SHARES],
    }
    return {
        "model_type": "qwen2_5_omni_text",
        "vocab_size": metadata["llama.vocab_size"],
        "hidden_size": width,
        "intermediate_size": metadata["llama.feed_forward_length"],
        "num_hidden_layers": metadata["llama.block_count"],
        "num_attention_heads": heads,
        "num_key_value_heads": metadata["llama.attention.head_count_kv"],
        "head_dim": head,
        "max_position_embeddings": metadata["llama.context_length"],
        "rms_norm_eps": metadata["llama.attention.layer_norm_rms_epsilon"],
        "hidden_act": "silu",
        "rope_parameters": rope,
        "rope_theta": rope["rope_theta"],
        "rope_scaling": rope,
        "use_sliding_window": False,
        "tie_word_embeddings": True,
        "bos_token_id": END,
        "eos_token_id": STOP,
        "pad_token_id": END,
    }


def language_tensors(metadata: dict[str, Any], tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Names below `thinker.`; the head is tied to the embedding."""
    heads = {
        "attn_q": metadata["llama.attention.head_count"],
        "attn_k": metadata["llama.attention.head_count_kv"],
    }
    named = {
        "model.embed_tokens.weight": tensors["token_embd.weight"],
        "model.norm.weight": tensors["output_norm.weight"],
    }
    for index in range(metadata["llama.block_count"]):
        for theirs, ours in _NAMES.items():
            weight = tensors[f"blk.{index}.{theirs}.weight"]
            if theirs in heads:
                weight = _halves_apart(weight, heads[theirs])
            named[f"model.layers.{index}.{ours}.weight"] = weight
            if theirs in _BIASED:
                named[f"model.layers.{index}.{ours}.bias"] = np.zeros(len(weight), np.float32)
    return named


def _halves_apart(weight: np.ndarray, num_heads: int) -> np.ndarray:
    """GGUF turns neighbouring rows together, published checkpoints rows half a head apart."""
    return weight.reshape(num_heads, -1, 2, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)
