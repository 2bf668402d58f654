"""Wire -> validated: what fields mean together, with defaults resolved. Pure; reads no media and renders no
prompt."""

import secrets

from engine.messages import Grammar, SamplingParams
from server.conversation import conversation_of
from server.effort import with_effort
from server.errors import BadRequest, NotFound
from server.schema.chat import ChatRequest
from server.schema.sampling import SamplingFields
from server.structured import grammar_of, structured_grammar
from server.tools.plan import plan_tools
from server.validated import AS_MANY_AS_FIT, AnswerOptions, ModelFacts, ValidatedChat

MAX_STOP_STRINGS = 4


def validate_chat(request: ChatRequest, facts: ModelFacts, max_media_items: int) -> ValidatedChat:
    """BadRequest or NotFound, naming the field."""
    check_model(request.model, facts)
    answer, answer_param = _answer_grammar(request)
    parallel = request.parallel_tool_calls is not False
    plan = plan_tools(request.tools, request.tool_choice, parallel, facts, answer)
    if request.structured_outputs is not None and plan.offered:
        raise BadRequest("structured_outputs and tools can't be combined.", param="structured_outputs")
    kwargs = with_effort(
        request.reasoning_effort, request.chat_template_kwargs, facts.template_variables, "reasoning_effort"
    )
    return ValidatedChat(
        conversation=conversation_of(request.messages, plan.rendered, kwargs, facts, max_media_items),
        options=answer_options(request, facts, _max_tokens(request), _num_top_logprobs(request)),
        model=request.model,
        grammar=plan.grammar,
        grammar_param="tools" if plan.of_tools else answer_param,
        single_tool_call=plan.single_call,
        lazy_grammar=plan.lazy,
        calls_or_answer=plan.or_answer,
    )


def _answer_grammar(request: ChatRequest) -> tuple[Grammar | None, str]:
    """What the whole answer must match, and the field that says so."""
    grammar = grammar_of(request.response_format)
    if request.structured_outputs is None:
        return grammar, "response_format.json_schema.schema"
    if grammar is not None:
        raise BadRequest(
            "response_format and structured_outputs can't be combined.", param="structured_outputs"
        )
    return structured_grammar(request.structured_outputs)


def check_model(name: str, facts: ModelFacts) -> None:
    if name not in facts.names:
        raise NotFound(
            f"The model `{name[:200]}` does not exist here.", param="model", code="model_not_found"
        )


def _max_tokens(request: ChatRequest) -> int:
    old, new = request.max_tokens, request.max_completion_tokens
    if old is not None and new is not None and old != new:
        raise BadRequest("max_tokens and max_completion_tokens differ.", param="max_tokens")
    return new or old or AS_MANY_AS_FIT


def _num_top_logprobs(request: ChatRequest) -> int | None:
    if request.logprobs:
        return request.top_logprobs or 0
    if request.top_logprobs is not None:
        raise BadRequest("top_logprobs needs logprobs: true.", param="top_logprobs")
    return None


def answer_options(
    request: SamplingFields, facts: ModelFacts, max_tokens: int, num_top_logprobs: int | None
) -> AnswerOptions:
    """Sampling and form of the answer, for either endpoint."""
    if request.stream_options is not None and not request.stream:
        raise BadRequest("stream_options needs stream: true.", param="stream_options")
    max_tokens = min(max_tokens, AS_MANY_AS_FIT)
    if request.min_tokens > max_tokens:
        raise BadRequest("min_tokens is more than the answer may have.", param="min_tokens")
    stop_ids = _token_ids(request.stop_token_ids or [], facts.vocab_size, "stop_token_ids")
    sampling = SamplingParams(
        max_tokens=max_tokens,
        temperature=float(request.temperature),
        top_p=float(request.top_p),
        top_k=max(request.top_k, 0),
        min_p=float(request.min_p),
        seed=secrets.randbits(63) if request.seed is None else request.seed % 2**63,
        frequency_penalty=float(request.frequency_penalty),
        presence_penalty=float(request.presence_penalty),
        repetition_penalty=float(request.repetition_penalty),
        logit_bias=_logit_bias(request.logit_bias or {}, facts.vocab_size),
        num_top_logprobs=num_top_logprobs,
        min_tokens=request.min_tokens,
        stop_token_ids=tuple(sorted(stop_ids | (frozenset() if request.ignore_eos else facts.eos_token_ids))),
    )
    return AnswerOptions(
        sampling=sampling,
        num_choices=request.n,
        stop=_stop_strings(request.stop),
        stream=request.stream,
        include_usage=bool(request.stream_options and request.stream_options.include_usage),
        cache_salt=request.cache_salt,
    )


def _stop_strings(stop: str | list[str] | None) -> tuple[str, ...]:
    stops = (stop,) if isinstance(stop, str) else tuple(stop or ())
    if len(stops) > MAX_STOP_STRINGS:
        raise BadRequest(f"At most {MAX_STOP_STRINGS} stop strings.", param="stop")
    return stops


def _token_ids(ids: list[int], vocab_size: int, param: str) -> frozenset[int]:
    for token_id in ids:
        if not 0 <= token_id < vocab_size:
            raise BadRequest(
                f"{param}: {token_id} is no token id of this model (0 to {vocab_size - 1}).", param=param
            )
    return frozenset(ids)


def _logit_bias(bias: dict[str, float], vocab_size: int) -> dict[int, float]:
    for key in bias:
        if not (key.isascii() and key.isdecimal() and len(key) <= 10):
            raise BadRequest(f"logit_bias: `{key[:50]}` is no token id.", param="logit_bias")
    ids = {int(key): float(value) for key, value in bias.items()}
    _token_ids(list(ids), vocab_size, "logit_bias")
    return ids
