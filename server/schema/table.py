"""The whole table of published request fields, in the order of the reference page."""

from server.schema import (
    format_fields,
    message_fields,
    request_fields,
    responses_fields,
    tool_fields,
    transcriptions_fields,
)

SECTIONS = (
    *request_fields.SECTIONS,
    *message_fields.SECTIONS,
    *tool_fields.SECTIONS,
    *format_fields.SECTIONS,
    *responses_fields.SECTIONS,
    *transcriptions_fields.SECTIONS,
)
