"""The proof's case tables, and docs/compatibility.md, which is made of them. Run as a file of its own by
`intarsia docs`, so it imports nothing of the tests."""

from typing import Any, NamedTuple

from models.registry import FAMILIES, import_class

PROVED = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "gemma3_text": "Gemma3ForCausalLM",
    "gemma3": "Gemma3ForConditionalGeneration",
    "qwen2_vl": "Qwen2VLForConditionalGeneration",
    "qwen2_5_vl": "Qwen2_5_VLForConditionalGeneration",
    "qwen3_vl": "Qwen3VLForConditionalGeneration",
    "qwen2_5_omni": "Qwen2_5OmniForConditionalGeneration",
    "qwen2_audio": "Qwen2AudioForConditionalGeneration",
    "llava": "LlavaForConditionalGeneration",
    "ultravox": "UltravoxModel",
}
"""The families under proof, each by the architecture that its tiny checkpoint names."""

BACKENDS = ("reference", "sdpa", "native")

WAYS: dict[str, tuple[str, ...]] = {
    "cold, then warm": BACKENDS,
    "in chunks of 1, 7 and 16 tokens": BACKENDS,
    "eight requests in one batch": BACKENDS,
    "preempted and resumed": BACKENDS,
    "found up to before, inside and after a media item": BACKENDS,
    "with media appended in a later turn": BACKENDS,
    "as one of four choices": BACKENDS,
}
"""Ways of reaching an answer, and the back ends on which each is compared with `transformers`."""

NOT_FUSED = ("gemma3_text", "gemma3")
"""Families whose layers the back end `native` computes one by one."""

INDIVISIBLE = ("gemma3",)
"""Families whose media are computed in one step, and found whole or not at all."""


class Refusal(NamedTuple):
    """A change to config.json, or to another file, with which the family's checkpoints are refused, and what
    it asks for."""

    family: str
    change: dict[str, Any]
    what: str
    file: str = "config.json"


REFUSALS = (
    Refusal("llama", {"hidden_act": "mish"}, "an activation other than silu, gelu, its approximations, relu"),
    Refusal(
        "llama",
        {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "partial_rotary_factor": 0.5}},
        "rotary positions on a part of each head",
    ),
    Refusal("llama", {"rope_parameters": {"rope_type": "new"}}, "unknown rotary scaling"),
    Refusal(
        "qwen2",
        {"layer_types": ["full_attention", "chunked_attention", "full_attention"]},
        "layers that are neither full nor sliding attention",
    ),
    Refusal("gemma3_text", {"final_logit_softcapping": 30.0}, "soft caps on scores or logits"),
    Refusal("gemma3_text", {"use_bidirectional_attention": True}, "text that sees what follows it"),
    Refusal("gemma3", {"vision_config": {"model_type": "clip_vision_model"}}, "a tower other than SigLIP's"),
    Refusal("gemma3", {"vision_config": {"hidden_act": "mish"}}, "a vision tower with an unknown activation"),
    Refusal("gemma3", {"vision_config": {"image_size": 140}}, "a tower and prepared pictures of two sizes"),
    Refusal("gemma3", {"mm_tokens_per_image": 17}, "pictures pooled to another number of tokens"),
    Refusal(
        "gemma3",
        {"do_pan_and_scan": True},
        "pictures cut into several (pan and scan)",
        "preprocessor_config.json",
    ),
    Refusal("qwen2_vl", {"vision_config": {"hidden_act": "gelu"}}, "a vision tower with another activation"),
    Refusal(
        "qwen2_vl", {"vision_config": {"patch_size": 16}}, "a tower and prepared pictures of two patch sizes"
    ),
    Refusal(
        "qwen2_vl",
        {"vision_config": {"rope_parameters": {"rope_type": "axial", "rope_theta": 100.0}}},
        "a vision tower with another rotary base",
    ),
    Refusal(
        "qwen3_vl",
        {"architectures": ["Qwen3VLMoeForConditionalGeneration"]},
        "a mixture of experts (`Qwen3VLMoeForConditionalGeneration`)",
    ),
    Refusal(
        "qwen3_vl", {"vision_config": {"hidden_act": "mish"}}, "a vision tower with an unknown activation"
    ),
    Refusal("qwen3_vl", {"vision_config": {"out_hidden_size": 32}}, "a vision tower of another width"),
    Refusal(
        "qwen2_audio", {"audio_config": {"activation_function": "relu"}}, "an encoder with another activation"
    ),
    Refusal(
        "qwen2_audio", {"audio_config": {"max_source_positions": 150}}, "an encoder and sounds of two lengths"
    ),
    Refusal("llava", {"vision_config": {"model_type": "siglip_vision_model"}}, "a tower other than CLIP's"),
    Refusal("llava", {"vision_config": {"image_size": 84}}, "a tower and prepared pictures of two sizes"),
    Refusal("ultravox", {"num_projector_layers": 2}, "a projector with transformer layers"),
    Refusal("ultravox", {"projector_act": "mish"}, "a projector with an unknown activation"),
    Refusal("ultravox", {"audio_latency_block_size": 100}, "blockwise attention in the encoder"),
    Refusal("ultravox", {"text_model_lora_config": {"r": 8}}, "an adapter that is not merged, of the text"),
    Refusal("ultravox", {"audio_model_lora_config": {"r": 8}}, "an adapter that is not merged, of the sound"),
)

QUANTISATIONS = {
    "fp8": True,
    "gptq": False,
    "awq": False,
}
"""By `quant_method`: whether it is taken back to full matrices while loading, or refused."""

_MARKS = {True: "✓", False: ""}
_KINDS = {"image": "pictures", "audio": "sound"}

_PAGE = """# Compatibility

Generated by `intarsia docs` from `models/registry.py` and the case tables of `tests/proof/`: what stands here
is run by `make test`.

## Architectures

The name that `config.json` gives under `architectures`. Every one is served by classes that are compared with
`transformers` on the same weights, in fp32: the same greedy tokens, log-probabilities within 1e-4.

{architectures}

Video, and speech as output, are taken by none.

## Ways of reaching an answer

Each for every family above, with text alone and with every mix of media that it takes.

{ways}

A media item of {indivisible} sees itself in both directions, so it is never cut: chunks are of its length and
of 6 and 15 tokens more, and where only a part of it is held, the hit ends before it.

The back end `native` also gives the same bits in bfloat16 on every way (`--deterministic`), but for
{not_fused}, whose layers it computes one by one.

## Quantised checkpoints

Loaded by `transformers` and taken back to full matrices. A method that is not listed is read where the
installed `transformers` can undo it without a GPU of its own, and is refused at start where it can't.

{quantisations}

## Refused at start, by name

{refusals}
"""


def page() -> str:
    """docs/compatibility.md."""
    return _PAGE.format(
        architectures=_table(
            ["architecture", "text", *_KINDS.values(), "proof"], [_architecture(name) for name in FAMILIES]
        ),
        ways=_table(
            ["way", *BACKENDS],
            [[way, *(_MARKS[name in backends] for name in BACKENDS)] for way, backends in WAYS.items()],
        ),
        indivisible=" and ".join(INDIVISIBLE),
        not_fused=" and ".join(NOT_FUSED),
        quantisations=_table(
            ["`quant_method`", "read"], [[f"`{name}`", _MARKS[read]] for name, read in QUANTISATIONS.items()]
        ),
        refusals=_table(
            ["family", "what it asks for"], [[refusal.family, refusal.what] for refusal in REFUSALS]
        ),
    )


def prover(architecture: str) -> str | None:
    """The family under proof whose classes serve an architecture: its own, if it has one."""
    own = [name for name, proved in PROVED.items() if proved == architecture]
    alike = [name for name, proved in PROVED.items() if FAMILIES[proved] == FAMILIES[architecture]]
    return next(iter(own + alike), None)


def _architecture(name: str) -> list[str]:
    kinds = import_class(FAMILIES[name].processing).kinds
    return [f"`{name}`", _MARKS[True], *(_MARKS[kind in kinds] for kind in _KINDS), f"{prover(name)}"]


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
