"""Fields of what an answer must match."""

from server.schema.field import Section, harmless, honoured, sections_in

RESPONSE_FORMAT = Section("response_format", (honoured("type"), honoured("json_schema")))
JSON_SCHEMA = Section(
    "json_schema",
    (
        honoured("name"),
        honoured("schema", "what can't be enforced is refused"),
        harmless("description", "not shown to the model"),
        harmless("strict", "the schema is enforced either way"),
    ),
)

STRUCTURED_OUTPUTS = Section(
    "structured_outputs (an extension): exactly one of",
    (
        honoured("regex", "a regular expression (Rust's syntax) for the whole answer", extension=True),
        honoured("choice", "1 to 1,024 strings, one of which is the answer", extension=True),
        honoured(
            "grammar", "a context-free grammar in Lark's notation, from its rule `start`", extension=True
        ),
    ),
)


SECTIONS = sections_in(dict(globals()))
