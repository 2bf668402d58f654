"""The JSON files of a Qwen2.5-Omni directory, but for the tokenizer's."""

from typing import Any

from models.smol_omni.hearing import MELS, POSITIONS
from models.smol_omni.tokens import END, IDS, STOP

VISION = {"depth": 1, "hidden_size": 32, "intermediate_size": 32, "num_heads": 2}
"""The layout wants a vision tower. This one is empty: the chat template takes no pictures."""
PATCH, MERGE, FRAMES = 14, 2, 2


def vision_config(out_width: int) -> dict[str, Any]:
    return VISION | {
        "in_channels": 3,
        "patch_size": PATCH,
        "spatial_merge_size": MERGE,
        "temporal_patch_size": FRAMES,
        "out_hidden_size": out_width,
        "window_size": 112,
        "fullatt_block_indexes": [0],
        "tokens_per_second": 25,
    }


def vision_shapes(out_width: int) -> dict[str, tuple[int, ...]]:
    """Every tensor of the vision tower, below `visual.`."""
    width, inner = VISION["hidden_size"], VISION["intermediate_size"]
    merged = MERGE**2 * width
    matrices = {
        "blocks.0.attn.q": (width, width),
        "blocks.0.attn.k": (width, width),
        "blocks.0.attn.v": (width, width),
        "blocks.0.attn.proj": (width, width),
        "blocks.0.mlp.gate_proj": (inner, width),
        "blocks.0.mlp.up_proj": (inner, width),
        "blocks.0.mlp.down_proj": (width, inner),
        "merger.mlp.0": (merged, merged),
        "merger.mlp.2": (out_width, merged),
    }
    shapes: dict[str, tuple[int, ...]] = {"patch_embed.proj.weight": (width, 3, FRAMES, PATCH, PATCH)}
    for name in ("blocks.0.norm1", "blocks.0.norm2", "merger.ln_q"):
        shapes[f"{name}.weight"] = (width,)
    for name, shape in matrices.items():
        shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    return shapes


def config(text: dict[str, Any], audio: dict[str, Any], user_token: int) -> dict[str, Any]:
    """text, audio: the configurations of these parts. user_token: what `user` begins with."""
    ends = {"bos_token_id": END, "eos_token_id": STOP, "pad_token_id": END}
    thinker = ends | {
        "model_type": "qwen2_5_omni_thinker",
        "text_config": text,
        "audio_config": {"model_type": "qwen2_5_omni_audio_encoder", **audio},
        "vision_config": {"model_type": "qwen2_5_omni_vision_encoder", **vision_config(text["hidden_size"])},
        "audio_token_index": IDS["<|AUDIO|>"],
        "image_token_index": IDS["<|IMAGE|>"],
        "video_token_index": IDS["<|VIDEO|>"],
        "audio_start_token_id": IDS["<|audio_bos|>"],
        "audio_end_token_id": IDS["<|audio_eos|>"],
        "vision_start_token_id": IDS["<|vision_bos|>"],
        "vision_end_token_id": IDS["<|vision_eos|>"],
        "user_token_id": user_token,
        "position_id_per_seconds": 25,
        "seconds_per_chunk": 2,
        "tie_word_embeddings": True,
    }
    return {
        "model_type": "qwen2_5_omni",
        "architectures": ["Qwen2_5OmniForConditionalGeneration"],
        "dtype": "bfloat16",
        "enable_audio_output": False,
        "tie_word_embeddings": True,
        "thinker_config": thinker,
    }


def generation_config() -> dict[str, Any]:
    """Temperature and top_p are those that SmolLM2's authors recommend."""
    return {
        "do_sample": True,
        "temperature": 0.2,
        "top_p": 0.9,
        "eos_token_id": [STOP, END],
        "pad_token_id": END,
    }


def preprocessor_config() -> dict[str, Any]:
    """Of pictures and of sounds, in one file as published."""
    half, least, most = [0.5, 0.5, 0.5], 4 * 28 * 28, 64 * 28 * 28
    pictures = {
        "image_processor_type": "Qwen2VLImageProcessor",
        "patch_size": PATCH,
        "merge_size": MERGE,
        "temporal_patch_size": FRAMES,
        "min_pixels": least,
        "max_pixels": most,
        "size": {"shortest_edge": least, "longest_edge": most},
        "image_mean": half,
        "image_std": half,
        "do_rescale": True,
        "do_normalize": True,
        "do_resize": True,
        "do_convert_rgb": True,
        "rescale_factor": 1 / 255,
        "resample": 3,
    }
    sounds = {
        "feature_extractor_type": "WhisperFeatureExtractor",
        "feature_size": MELS,
        "sampling_rate": 16_000,
        "hop_length": 160,
        "n_fft": 400,
        "chunk_length": 30,
        "n_samples": 480_000,
        "nb_max_frames": 2 * POSITIONS,
        "padding_side": "right",
        "padding_value": 0.0,
        "dither": 0.0,
        "return_attention_mask": True,
    }
    return {"processor_class": "Qwen2_5OmniProcessor", **pictures, **sounds}
