"""How the answers of one request are read, settled once its prompt is known."""

from dataclasses import replace
from typing import Any

from server.choice import Reading
from server.reader import CallsOrAnswer, TagReader
from server.response_template.reader import CALLS, TemplateReader
from server.response_template.search_time import SearchTime
from server.response_template.template import ResponseTemplate
from server.runtime import Runtime
from server.tools.form import TAGGED, CallForm
from server.validated import AnswerOptions, ModelFacts, ValidatedChat

_PROMPT_TAIL = 512
"""Tokens of a prompt among which the answer's own beginning is looked for."""


def plain_reading(runtime: Runtime, options: AnswerOptions) -> Reading:
    """Text is text."""
    return Reading(
        stop=options.stop,
        silent_ids=frozenset(options.sampling.stop_token_ids) | runtime.facts.eos_token_ids,
        names=runtime.vocabulary if options.sampling.num_top_logprobs is not None else None,
    )


def chat_reading(runtime: Runtime, request: ValidatedChat, prompt_ids: list[int]) -> Reading:
    reading = _chat_reading(runtime, request, prompt_ids)
    if not request.calls_or_answer:
        return reading
    opening = (runtime.facts.call_form or TAGGED).beside_answers.opening
    return replace(reading, make_reader=lambda: CallsOrAnswer(opening, reading.make_reader))


def _chat_reading(runtime: Runtime, request: ValidatedChat, prompt_ids: list[int]) -> Reading:
    """By the checkpoint's response template where it has one; but what a grammar has forced is read as the
    grammar has it."""
    tools = request.conversation.tools
    functions = None if tools is None else [tool["function"] for tool in tools]
    is_free = request.grammar is None or request.lazy_grammar
    template = runtime.response_template
    reading = replace(plain_reading(runtime, request.options), single_tool_call=request.single_tool_call)
    if template is not None and _is_read_by(template, _form(runtime.facts, request), functions, is_free):
        tail = prompt_ids[-_PROMPT_TAIL:] if is_free else []
        prompt = runtime.vocabulary.decode(tail, skip_special_tokens=False)
        searches = SearchTime()
        return replace(
            reading,
            make_reader=lambda: TemplateReader(template, prompt, functions, searches),
            shown_ids=runtime.template_ids,
        )
    thoughts = is_free and runtime.think is not None
    inside = runtime.think is not None and runtime.think.opened_by(prompt_ids)
    return replace(reading, make_reader=lambda: TagReader(thoughts, inside, functions is not None))


def _form(facts: ModelFacts, request: ValidatedChat) -> CallForm | None:
    """The model's own; None where a grammar makes calls in another, or might."""
    form = facts.call_form
    return None if form is None or (request.calls_or_answer and form.beside_answers != form) else form


def _is_read_by(
    template: ResponseTemplate,
    form: CallForm | None,
    functions: list[dict[str, Any]] | None,
    is_free: bool,
) -> bool:
    """Not where calls are offered that it does not know of, nor where a grammar makes something else of the
    answer."""
    if functions is None:
        return is_free
    return CALLS in template.fields and (is_free or form is not None)
