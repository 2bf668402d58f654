"""Every field that the official client can send has a row in the table, and the wire types agree with the
table."""

import typing

import pytest

from server.schema import chat, completions, response_items, responses, sampling, tokenize, transcriptions
from server.schema.field import Section
from server.schema.table import SECTIONS
from server.schema.wire import Wire
from tests.server.published import PUBLISHED

REFUSED_PART_TYPES = {"file"}
REFUSED_ROLES = {"function"}


@pytest.mark.parametrize(
    ("published", "section"), PUBLISHED, ids=lambda value: getattr(value, "__name__", None)
)
def test_no_published_field_is_forgotten(published: type, section: Section) -> None:
    names = set(typing.get_type_hints(published))
    assert names
    assert names - {field.name for field in section.fields} == set()
    extensions = {field.name for field in section.fields if field.extension}
    assert extensions & names == set(), "a published field is no extension"


def wire_types() -> list[type[Wire]]:
    found = {
        value
        for module in (chat, completions, response_items, responses, sampling, tokenize, transcriptions)
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Wire) and hasattr(value, "section")
    }
    return sorted(found, key=lambda wire: (wire.__module__, wire.__name__))


@pytest.mark.parametrize("wire", wire_types(), ids=lambda wire: f"{wire.__module__}.{wire.__name__}")
def test_wire_types_hold_exactly_what_the_table_honours_or_ignores(wire: type[Wire]) -> None:
    names = {info.alias or name for name, info in wire.model_fields.items()}
    assert names == wire.section.names("honoured", "harmless")


def test_every_section_belongs_to_a_wire_type() -> None:
    titles = [section.title for section in SECTIONS]
    assert len(set(titles)) == len(titles)
    assert {wire.section.title for wire in wire_types()} == set(titles)


def test_every_published_part_and_role_is_known_or_refused() -> None:
    from openai.types.chat.chat_completion_content_part_param import ChatCompletionContentPartParam
    from openai.types.chat.chat_completion_message_param import ChatCompletionMessageParam

    def literals(union: object, key: str) -> set[str]:
        hints = [typing.get_type_hints(member)[key] for member in typing.get_args(union)]
        return {value for hint in hints for value in typing.get_args(hint)}

    known_parts = {"text", "image_url", "input_audio"}
    known_roles = {"system", "developer", "user", "assistant", "tool"}
    assert literals(ChatCompletionContentPartParam, "type") == known_parts | REFUSED_PART_TYPES
    assert literals(ChatCompletionMessageParam, "role") == known_roles | REFUSED_ROLES


def test_every_row_says_why_it_is_not_honoured() -> None:
    for section in SECTIONS:
        assert len({field.name for field in section.fields}) == len(section.fields)
        for field in section.fields:
            assert field.note or field.status == "honoured", (section.title, field.name)
