"""How a model writes a call, as far as a grammar must know it: an object of JSON between two marks."""

from typing import NamedTuple


class CallForm(NamedTuple):
    """`opening` edge `{"name": ..., "arguments": {...}}` edge `closing`, with keys of the model's own."""

    opening: str
    closing: str
    name_key: str = "name"
    arguments_key: str = "arguments"
    edge: str = ""


TAGGED = CallForm("<tool_call>", "</tool_call>", edge="\n")
"""What Hermes and Qwen models write, and the fallback for all others."""
