"""Chat templates: Jinja source that a checkpoint publishes, rendered as `transformers` renders it, within
limits.

Knows nothing of tokens or media; what it is given is already safe to render (see `server.prompt`).
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Any, NoReturn

import jinja2
from jinja2 import meta, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace


class TemplateError(ValueError):
    """The template refused the messages, or broke, or went over its limits. The text is fit for a client."""


class ChatTemplate:
    """A compiled template. Safe to share between threads."""

    def __init__(
        self,
        source: str,
        special_tokens: Mapping[str, str] | None = None,
        timeout_s: float = 10.0,
        max_characters: int = 1 << 26,
    ) -> None:
        """special_tokens: `bos_token` and so on, as variables. Raises TemplateError if the source does not
        compile."""
        self.source = source
        self._special_tokens = dict(special_tokens or {})
        self._timeout_s = timeout_s
        self._max_characters = max_characters
        try:
            self._template = _environment().from_string(source)
        except jinja2.TemplateError as error:
            raise TemplateError(f"The model's chat template does not compile: {error.message}") from None

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        documents: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        kwargs: Mapping[str, Any] | None = None,
    ) -> str:
        """messages and the rest are plain JSON data. kwargs: more variables, stronger than the special
        tokens."""
        variables = {**self._special_tokens, **(kwargs or {})}
        variables |= {
            "messages": messages,
            "tools": tools,
            "documents": documents,
            "add_generation_prompt": add_generation_prompt,
        }
        pieces: list[str] = []
        num_characters = 0
        try:
            with _time_limit(self._timeout_s):
                for piece in self._template.generate(variables):
                    _check_time()
                    pieces.append(piece)
                    num_characters += len(piece)
                    if num_characters > self._max_characters:
                        raise TemplateError("The chat template's output is too long.")
        except TemplateError:
            raise
        except _Refusal as error:
            raise TemplateError(str(error)) from None
        except Exception:  # a template can raise whatever its expressions raise
            raise TemplateError("The model's chat template can't render these messages.") from None
        return "".join(pieces)


def variables_of(source: str) -> frozenset[str]:
    """What a template reads that it does not set itself. jinja2.TemplateError if it does not compile."""
    return frozenset(meta.find_undeclared_variables(_environment().parse(source)))


class _Refusal(jinja2.TemplateError):
    """A template called `raise_exception`: its message is meant for whoever wrote the messages."""


_deadline: ContextVar[float] = ContextVar("deadline", default=float("inf"))


@contextmanager
def _time_limit(timeout_s: float) -> Iterator[None]:
    token = _deadline.set(time.monotonic() + timeout_s)
    try:
        yield
    finally:
        _deadline.reset(token)


def _check_time() -> None:
    if time.monotonic() > _deadline.get():
        raise TemplateError("The chat template takes too long.")


class _Environment(ImmutableSandboxedEnvironment):
    """The sandbox, with the clock looked at on every call: loops that go on need `range` or a macro to do
    so."""

    intercepted_binops = frozenset(["*", "**"])
    _max_repeats = 1 << 20

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        _check_time()
        return super().call(__context, __obj, *args, **kwargs)

    def getattr(self, obj: Any, attribute: str) -> Any:
        _check_time()
        return super().getattr(obj, attribute)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        sized = any(isinstance(side, str | list | tuple) for side in (left, right))
        if operator == "**" or (operator == "*" and sized):
            largest = max((abs(side) for side in (left, right) if isinstance(side, int | float)), default=0)
            if largest > self._max_repeats:
                raise TemplateError("The chat template's output is too long.")
        return super().call_binop(context, operator, left, right)


class _GenerationBlocks(Extension):
    """`{% generation %}` marks an assistant's words for training; for serving its content is simply
    rendered."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_content"), [], [], body).set_lineno(line)

    def _content(self, caller: Any) -> str:
        return caller()


def _environment() -> _Environment:
    environment = _Environment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationBlocks, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = lambda format: datetime.now().strftime(format)
    environment.globals["namespace"] = Namespace
    return environment


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Jinja's own filter escapes what HTML needs escaped; models were trained on JSON as it is."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _refuse(message: str) -> NoReturn:
    raise _Refusal(message)
