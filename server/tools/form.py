"""How a model writes calls, as far as a grammar must know it: as objects of JSON, or a name and one."""

from typing import NamedTuple


class CallForm(NamedTuple):
    """`opening` edge `{"name": ..., "arguments": {...}}` edge `closing`, with keys of the model's own.
    `opening` and `closing` may be empty; without any opening, the answer is one call or none."""

    opening: str
    closing: str
    name_key: str = "name"
    arguments_key: str = "arguments"
    edge: str = ""
    joint: str = ""
    """Between a name and its arguments, where a call is these two and no object that holds them."""
    in_list: bool = False
    """All calls are items of one list behind one opening."""

    @property
    def beside_answers(self) -> "CallForm":
        """Which form calls have where structured text is the other choice: one that begins differently."""
        return self if self.opening else TAGGED


TAGGED = CallForm("<tool_call>", "</tool_call>", edge="\n")
"""What Hermes and Qwen models write, and the fallback for all others."""
