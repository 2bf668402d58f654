"""The trained model as a standard Qwen2.5-Omni directory: `python -m tools.demo_model.export`.

Writes models/demo: weights in bfloat16 under the published names, and every file that transformers reads.
"""

import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import Qwen2_5OmniConfig

from tools.demo_model.pictures import CACHE
from tools.demo_model.sizes import AUDIO, LANGUAGE, MAX_PIXELS, MIN_PIXELS, VISION
from tools.demo_model.tokens import CHECKPOINT, SIZE, special, tokenizer

NAMED_TOKENS = {
    "image_token": "<|IMAGE|>",
    "audio_token": "<|AUDIO|>",
    "video_token": "<|VIDEO|>",
    "vision_bos_token": "<|vision_bos|>",
    "vision_eos_token": "<|vision_eos|>",
    "audio_bos_token": "<|audio_bos|>",
    "audio_eos_token": "<|audio_eos|>",
}
HERE = Path(__file__).parent


def vision_config() -> dict:
    return {
        "depth": VISION["depth"],
        "hidden_size": VISION["hidden"],
        "intermediate_size": VISION["inner"],
        "in_channels": 3,
        "num_heads": VISION["heads"],
        "patch_size": VISION["patch"],
        "spatial_merge_size": VISION["merge"],
        "temporal_patch_size": VISION["temporal"],
        "out_hidden_size": LANGUAGE["hidden"],
        "window_size": 112,
        "fullatt_block_indexes": list(range(VISION["depth"])),
        "tokens_per_second": 25,
    }


def audio_config() -> dict:
    return {
        "d_model": AUDIO["hidden"],
        "encoder_layers": AUDIO["depth"],
        "encoder_attention_heads": AUDIO["heads"],
        "encoder_ffn_dim": AUDIO["inner"],
        "num_mel_bins": AUDIO["mels"],
        "n_window": AUDIO["window"],
        "output_dim": LANGUAGE["hidden"],
        "max_source_positions": 1500,
    }


def boundary_tokens() -> dict:
    end = special("<|endoftext|>")
    return {"bos_token_id": end, "eos_token_id": special("<|im_end|>"), "pad_token_id": end}


def text_config() -> dict:
    rope = {
        "rope_type": "default",
        "rope_theta": LANGUAGE["theta"],
        "mrope_section": list(LANGUAGE["sections"]),
    }
    return boundary_tokens() | {
        "vocab_size": SIZE,
        "hidden_size": LANGUAGE["hidden"],
        "intermediate_size": LANGUAGE["inner"],
        "num_hidden_layers": LANGUAGE["depth"],
        "num_attention_heads": LANGUAGE["heads"],
        "num_key_value_heads": LANGUAGE["kv_heads"],
        "head_dim": LANGUAGE["head"],
        "max_position_embeddings": 4096,
        "rope_parameters": rope,
        "rope_theta": LANGUAGE["theta"],
        "rope_scaling": rope,
        "tie_word_embeddings": False,
    }


def thinker_config() -> dict:
    return boundary_tokens() | {
        "text_config": text_config(),
        "vision_config": vision_config(),
        "audio_config": audio_config(),
        "image_token_index": special("<|IMAGE|>"),
        "audio_token_index": special("<|AUDIO|>"),
        "video_token_index": special("<|VIDEO|>"),
        "vision_start_token_id": special("<|vision_bos|>"),
        "vision_end_token_id": special("<|vision_eos|>"),
        "audio_start_token_id": special("<|audio_bos|>"),
        "audio_end_token_id": special("<|audio_eos|>"),
        "user_token_id": tokenizer().encode("user").ids[0],
        "position_id_per_seconds": 25,
        "seconds_per_chunk": 2,
        "tie_word_embeddings": False,
    }


def write_json(name: str, content: dict) -> None:
    (CHECKPOINT / name).write_text(json.dumps(content, indent=2) + "\n")


def write_config() -> None:
    config = Qwen2_5OmniConfig(thinker_config=thinker_config(), enable_audio_output=False).to_dict()
    kept = {k: v for k, v in config.items() if k not in ("talker_config", "token2wav_config")}
    kept |= {"architectures": ["Qwen2_5OmniForConditionalGeneration"], "dtype": "bfloat16"}
    write_json("config.json", kept)


def image_settings() -> dict:
    half = [0.5, 0.5, 0.5]
    return {
        "image_processor_type": "Qwen2VLImageProcessor",
        "patch_size": VISION["patch"],
        "merge_size": VISION["merge"],
        "temporal_patch_size": VISION["temporal"],
        "min_pixels": MIN_PIXELS,
        "max_pixels": MAX_PIXELS,
        "size": {"shortest_edge": MIN_PIXELS, "longest_edge": MAX_PIXELS},
        "image_mean": half,
        "image_std": half,
        "do_rescale": True,
        "do_normalize": True,
        "do_resize": True,
        "do_convert_rgb": True,
        "rescale_factor": 1 / 255,
        "resample": 3,
    }


def sound_settings() -> dict:
    return {
        "feature_extractor_type": "WhisperFeatureExtractor",
        "feature_size": AUDIO["mels"],
        "sampling_rate": 16_000,
        "hop_length": 160,
        "n_fft": 400,
        "chunk_length": 30,
        "n_samples": 480_000,
        "nb_max_frames": 3000,
        "padding_side": "right",
        "padding_value": 0.0,
        "dither": 0.0,
        "return_attention_mask": True,
    }


def write_processing() -> None:
    processor = {"processor_class": "Qwen2_5OmniProcessor"}
    write_json("preprocessor_config.json", processor | image_settings() | sound_settings())
    tokens = {"bos_token": None, "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "unk_token": None}
    write_json(
        "tokenizer_config.json",
        processor
        | {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 4096, "add_prefix_space": False}
        | {"clean_up_tokenization_spaces": False, "extra_special_tokens": NAMED_TOKENS}
        | tokens
        | NAMED_TOKENS,
    )
    stop = [special("<|im_end|>"), special("<|endoftext|>")]
    tokens = {"eos_token_id": stop, "pad_token_id": stop[1]}
    asked = {"transcription_prompt": "Transcribe the recording."}
    write_json("generation_config.json", {"do_sample": False} | tokens | asked)
    shutil.copy(HERE / "chat_template.jinja", CHECKPOINT / "chat_template.jinja")


def main() -> None:
    model = torch.load(CACHE / "train.pt", map_location="cpu")["model"]
    tensors = {f"thinker.{name}": value.bfloat16().contiguous() for name, value in model.items()}
    patch = (
        "thinker.visual.patch_embed.proj.weight"  # still pictures fill both frames: equal halves, same sum
    )
    total = model[patch.removeprefix("thinker.")].sum(2, keepdim=True)
    tensors[patch] = (total / 2).expand(-1, -1, 2, -1, -1).bfloat16().contiguous()
    save_file(tensors, CHECKPOINT / "model.safetensors", metadata={"format": "pt"})
    torch.save({}, CHECKPOINT / "spk_dict.pt")
    write_config()
    write_processing()
    size = sum(path.stat().st_size for path in CHECKPOINT.iterdir())
    count = sum(tensor.numel() for tensor in tensors.values())
    print(f"{CHECKPOINT}: {count / 1e6:.2f} M parameters, {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
