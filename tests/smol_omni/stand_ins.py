"""Stand-ins for the two packages: a tiny GGUF file and a CTranslate2 file of random weights."""

import struct
from typing import Any

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from models.smol_omni.hearing import INNER, MELS, WHISPER_LAYERS, WIDTH

TEXT_WIDTH, HEADS, KV_HEADS, INNER_TEXT, DEPTH = 128, 2, 1, 64, 2
WORDS = ["h", "i", "u", "s", "e", "r", "Ġ", "us", "er", "user", "1", "2", "Ċ"]
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *(f"<spare_{n}>" for n in range(14))]

_NAMES = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}  # fmt: skip


def metadata() -> dict[str, Any]:
    tokens = SPECIAL + WORDS
    return {
        "llama.embedding_length": TEXT_WIDTH,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": KV_HEADS,
        "llama.block_count": DEPTH,
        "llama.context_length": 512,
        "llama.feed_forward_length": INNER_TEXT,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.freq_base": 10_000.0,
        "llama.vocab_size": len(tokens),
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3] * len(SPECIAL) + [1] * len(WORDS),
        "tokenizer.ggml.merges": ["u s", "e r", "us er"],
    }


def llama(rng: torch.Generator) -> LlamaForCausalLM:
    """A language model with weights that bfloat16 holds exactly."""
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(SPECIAL) + len(WORDS),
            hidden_size=TEXT_WIDTH,
            intermediate_size=INNER_TEXT,
            num_hidden_layers=DEPTH,
            num_attention_heads=HEADS,
            num_key_value_heads=KV_HEADS,
            rms_norm_eps=1e-5,
            rope_theta=10_000.0,
            tie_word_embeddings=True,
        )
    )
    for weight in model.parameters():
        weight.data = torch.empty_like(weight).normal_(0, 0.2, generator=rng).bfloat16().float()
    return model.eval()


def as_gguf_names(model: LlamaForCausalLM) -> dict[str, np.ndarray]:
    """As the published converter writes a Llama: rows that turn together stand together."""
    state = {name: value.numpy() for name, value in model.state_dict().items()}
    named = {
        "token_embd.weight": state["model.embed_tokens.weight"],
        "output_norm.weight": state["model.norm.weight"],
    }
    for layer in range(DEPTH):
        for theirs, ours in _NAMES.items():
            weight = state[f"model.layers.{layer}.{ours}.weight"]
            if theirs in ("attn_q", "attn_k"):
                heads = HEADS if theirs == "attn_q" else KV_HEADS
                weight = weight.reshape(heads, 2, -1, TEXT_WIDTH).swapaxes(1, 2).reshape(weight.shape)
            named[f"blk.{layer}.{theirs}.weight"] = weight
    return named


def _text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def _value(value: Any) -> bytes:
    match value:
        case str():
            return struct.pack("<I", 8) + _text(value)
        case int():
            return struct.pack("<II", 4, value)
        case float():
            return struct.pack("<If", 6, value)
        case list():
            inner = [_value(item) for item in value]
            return (
                struct.pack("<I", 9)
                + inner[0][:4]
                + struct.pack("<Q", len(value))
                + b"".join(x[4:] for x in inner)
            )
    raise TypeError(type(value))


def quantised(values: np.ndarray, kind: int) -> bytes:
    """The blocks of a tensor of GGUF's kind 0 (float32), 3 (Q4_1) or 8 (Q8_0)."""
    if kind == 0:
        return values.astype(np.float32).tobytes()
    out = []
    for block in values.reshape(-1, 32):
        if kind == 8:
            scale = np.float16(np.abs(block).max() / 127)
            out.append(
                scale.tobytes() + np.rint(block / np.float32(scale)).clip(-127, 127).astype(np.int8).tobytes()
            )
            continue
        scale, least = np.float16((block.max() - block.min()) / 15), np.float16(block.min())
        steps = np.rint((block - np.float32(least)) / np.float32(scale)).clip(0, 15).astype(np.uint8)
        out.append(scale.tobytes() + least.tobytes() + (steps[:16] | steps[16:] << 4).tobytes())
    return b"".join(out)


def gguf(entries: dict[str, Any], weights: dict[str, np.ndarray], kinds: dict[str, int]) -> bytes:
    """kinds: of the tensors that are not float32."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(weights), len(entries))
    head += b"".join(_text(name) + _value(value) for name, value in entries.items())
    body = b""
    for name, values in weights.items():
        shape = values.shape[::-1]
        kind = kinds.get(name, 0)
        head += _text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        head += struct.pack("<IQ", kind, len(body))
        data = quantised(values, kind)
        body += data + b"\0" * (-len(data) % 32)
    return head + b"\0" * (-len(head) % 32) + body


def language_file(model: LlamaForCausalLM) -> bytes:
    return gguf(metadata(), as_gguf_names(model), {})


def variables(rng: np.random.Generator) -> dict[str, np.ndarray]:
    shapes: dict[str, tuple[int, ...]] = {
        "encoder/conv1/weight": (WIDTH, MELS, 3), "encoder/conv1/bias": (WIDTH,),
        "encoder/conv2/weight": (WIDTH, WIDTH, 3), "encoder/conv2/bias": (WIDTH,),
        "encoder/layer_norm/gamma": (WIDTH,), "encoder/layer_norm/beta": (WIDTH,),
    }  # fmt: skip
    for index in range(WHISPER_LAYERS):
        layer = f"encoder/layer_{index}"
        for part in ("self_attention", "ffn"):
            shapes |= {
                f"{layer}/{part}/layer_norm/gamma": (WIDTH,),
                f"{layer}/{part}/layer_norm/beta": (WIDTH,),
            }
        for part, rows, columns in (
            ("self_attention/linear_0", 3 * WIDTH, WIDTH), ("self_attention/linear_1", WIDTH, WIDTH),
            ("ffn/linear_0", INNER, WIDTH), ("ffn/linear_1", WIDTH, INNER),
        ):  # fmt: skip
            shapes |= {f"{layer}/{part}/weight": (rows, columns), f"{layer}/{part}/bias": (rows,)}
    return {name: rng.normal(0, 0.05, shape).astype(np.float16) for name, shape in shapes.items()}


def hearing_file(made: dict[str, np.ndarray]) -> bytes:
    """made: as `variables` gives it."""

    def text(value: str) -> bytes:
        return struct.pack("<H", len(value) + 1) + value.encode() + b"\0"

    out = [struct.pack("<I", 6), text("WhisperSpec"), struct.pack("<I", 3), struct.pack("<I", len(made) + 1)]
    out += [text("encoder/num_heads"), struct.pack("<BBI", 0, 1, 1), b"\6"]  # an int8 scalar: to be skipped
    for name, values in made.items():
        out.append(text(name) + struct.pack(f"<B{values.ndim}I", values.ndim, *values.shape))
        out.append(struct.pack("<BI", 4, values.nbytes) + values.tobytes())
    return b"".join(out)
