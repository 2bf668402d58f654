"""Fields of tools, of their calls, and of the choice between them."""

from server.schema.field import Section, harmless, honoured, sections_in

TOOL = Section("tools", (honoured("type", "`function`; `custom` is refused"), honoured("function")))
FUNCTION = Section(
    "function",
    (
        honoured("name"),
        honoured("description"),
        honoured("parameters", "a JSON schema"),
        honoured(
            "strict",
            "arguments always follow the schema where a call is forced. Under `auto` they do from the moment "
            "a call begins if any offered tool is strict, which is refused where the model writes calls in a "
            "form that can't be enforced; without strict they are parsed only",
        ),
    ),
)

TOOL_CALL = Section(
    "tool_calls of an assistant message",
    (
        honoured("id"),
        honoured("type", "`function`; `custom` is refused"),
        honoured("function"),
        harmless("index", "calls stand in the order of their list; joined chunks of a stream keep it"),
    ),
)
PARSED_ARGUMENTS = harmless("parsed_arguments", "what the official client made of `arguments`")
CALLED_FUNCTION = Section(
    "function of a tool call",
    (
        honoured("name"),
        honoured("arguments", "a JSON object as text; other text is given to the template as it is"),
        PARSED_ARGUMENTS,
    ),
)

NAMED_TOOL_CHOICE = Section("tool_choice: a named function", (honoured("type"), honoured("function")))
NAMED_FUNCTION = Section("function of a tool_choice", (honoured("name"),))
ALLOWED_TOOLS_CHOICE = Section("tool_choice: allowed tools", (honoured("type"), honoured("allowed_tools")))
ALLOWED_TOOLS = Section("allowed_tools", (honoured("mode"), honoured("tools", "named functions of `tools`")))


SECTIONS = sections_in(dict(globals()))
