"""SmolLM2's tokenizer, with media in the place of special tokens that a chat never uses."""

from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

END, START, STOP = 0, 1, 2
"""`<|endoftext|>`, `<|im_start|>`, `<|im_end|>`."""
MEDIA = {
    3: "<|AUDIO|>",
    4: "<|audio_bos|>",
    5: "<|audio_eos|>",
    6: "<|IMAGE|>",
    7: "<|VIDEO|>",
    8: "<|vision_bos|>",
    9: "<|vision_eos|>",
}
"""Where `<repo_name>` to `<issue_comment>` were."""
IDS = {content: token for token, content in MEDIA.items()}
_CONTROL = 3


def tokenizer(metadata: dict[str, Any]) -> Tokenizer:
    """metadata: of the GGUF file. Digits stand alone, as the kind "smollm" says."""
    if metadata["tokenizer.ggml.pre"] != "smollm":
        raise ValueError(f"a tokenizer of the kind {metadata['tokenizer.ggml.pre']!r}")
    contents = list(metadata["tokenizer.ggml.tokens"])
    for token, content in MEDIA.items():
        contents[token] = content
    merges = [tuple(merge.split(" ")) for merge in metadata["tokenizer.ggml.merges"]]
    made = Tokenizer(models.BPE({content: token for token, content in enumerate(contents)}, merges))
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    made.decoder = decoders.ByteLevel()
    kinds = metadata["tokenizer.ggml.token_type"]
    special = [content for content, kind in zip(contents, kinds, strict=True) if kind == _CONTROL]
    made.add_special_tokens([AddedToken(content, special=True, normalized=False) for content in special])
    return made


def tokenizer_config(context: int) -> dict[str, Any]:
    """context: positions that the language model has."""
    named = {
        "image_token": "<|IMAGE|>",
        "audio_token": "<|AUDIO|>",
        "video_token": "<|VIDEO|>",
        "vision_bos_token": "<|vision_bos|>",
        "vision_eos_token": "<|vision_eos|>",
        "audio_bos_token": "<|audio_bos|>",
        "audio_eos_token": "<|audio_eos|>",
    }
    return {
        "processor_class": "Qwen2_5OmniProcessor",
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": context,
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "extra_special_tokens": named,
        "bos_token": None,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "unk_token": None,
        **named,
    }
