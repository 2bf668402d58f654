"""Wire -> validated for POST /v1/responses: a chat with one choice, asked for in other words."""

from engine.messages import Grammar
from server.errors import BadRequest
from server.responses.conversation import conversation_of
from server.responses.namespaces import Namespaces
from server.schema.chat import (
    AllowedTools,
    AllowedToolsChoice,
    JsonSchema,
    NamedFunction,
    NamedToolChoice,
    ResponseFormat,
    ToolChoice,
)
from server.schema.responses import NamedTool, ResponseRequest, TextFormat
from server.schema.sampling import SamplingFields
from server.structured import grammar_of
from server.tools.plan import plan_tools
from server.validate import answer_options, check_model
from server.validated import AS_MANY_AS_FIT, ModelFacts, ValidatedChat

LOGPROBS = "message.output_text.logprobs"


def validate_response(
    request: ResponseRequest, namespaces: Namespaces, facts: ModelFacts, max_media_items: int
) -> ValidatedChat:
    """namespaces: of the request's tools. BadRequest or NotFound, naming the field."""
    check_model(request.model, facts)
    if request.stream_options is not None and not request.stream:
        raise BadRequest("stream_options needs stream: true.", param="stream_options")
    plan = plan_tools(
        namespaces.flat,
        _tool_choice(request),
        request.parallel_tool_calls,
        facts,
        _grammar(request.text.format if request.text else None),
    )
    sampling = SamplingFields.model_construct(
        temperature=request.temperature,
        top_p=request.top_p,
        top_k=request.top_k,
        seed=request.seed,
        stream=request.stream,
        cache_salt=request.cache_salt,
    )
    max_tokens = request.max_output_tokens or AS_MANY_AS_FIT
    return ValidatedChat(
        conversation=conversation_of(request, plan.rendered, facts, max_media_items),
        options=answer_options(
            sampling, facts, max_tokens, request.top_logprobs if wants_logprobs(request) else None
        ),
        model=request.model,
        grammar=plan.grammar,
        grammar_param="tools" if plan.of_tools else "text.format.schema",
        single_tool_call=plan.single_call,
        lazy_grammar=plan.lazy,
        calls_or_answer=plan.or_answer,
    )


def wants_logprobs(request: ResponseRequest) -> bool:
    return request.top_logprobs > 0 or LOGPROBS in (request.include or ())


def _tool_choice(request: ResponseRequest) -> ToolChoice | None:
    choice = request.tool_choice
    if choice is None or isinstance(choice, str):
        return choice
    if isinstance(choice, NamedTool):
        return _named(choice)
    allowed = AllowedTools(mode=choice.mode, tools=[_named(tool) for tool in choice.tools])
    return AllowedToolsChoice(type="allowed_tools", allowed_tools=allowed)


def _named(tool: NamedTool) -> NamedToolChoice:
    return NamedToolChoice(type="function", function=NamedFunction(name=tool.name))


def _grammar(text_format: TextFormat | None) -> Grammar | None:
    if text_format is None:
        return None
    if text_format.type != "json_schema":
        return grammar_of(ResponseFormat(type=text_format.type))
    for field, value in (("name", text_format.name), ("schema", text_format.schema_)):
        if value is None:
            param = f"text.format.{field}"
            raise BadRequest(f"{param} is missing.", param=param, code="missing_required_parameter")
    schema = JsonSchema(name=text_format.name or "", schema=text_format.schema_)
    return grammar_of(ResponseFormat(type="json_schema", json_schema=schema))
