"""How much a model is to think, put into the variables that its chat template reads."""

from collections.abc import Mapping
from typing import Any

from server.errors import BadRequest

LEVEL, SWITCHES = "reasoning_effort", ("enable_thinking", "thinking")
DEFAULT = "medium"
"""As published: it asks for nothing where there is nothing to choose."""


def with_effort(
    effort: str | None, template_kwargs: Mapping[str, Any] | None, known: frozenset[str], param: str
) -> dict[str, Any]:
    """template_kwargs, and what `effort` comes to. known: the variables that the template reads. BadRequest
    where it has none for it, or where they are set otherwise."""
    kwargs = dict(template_kwargs or {})
    if effort is None:
        return kwargs
    meant: dict[str, Any] = {name: effort != "none" for name in SWITCHES if name in known}
    if LEVEL in known:
        meant[LEVEL] = effort
    if not meant and effort != DEFAULT:
        raise BadRequest(
            f"{param}: this model's chat template has no setting for it; leave it out.",
            param=param,
            code="unsupported_parameter",
        )
    for name, value in meant.items():
        if kwargs.setdefault(name, value) != value:
            raise BadRequest(f"{param} and chat_template_kwargs.{name} differ.", param=param)
    return kwargs
