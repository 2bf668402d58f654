"""The base of all wire types: strict, closed, and led by the field table; and errors as OpenAI names them.

Knows how pydantic reports a fault and how that becomes a message and a `param`. Knows no endpoint.
"""

import re
from typing import Any, ClassVar, TypeVar, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    GetJsonSchemaHandler,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError

from server.errors import BadRequest
from server.schema.field import Section


class Wire(BaseModel):
    """One JSON object. Refused fields raise, unknown ones too unless the context says `allow_unknown`; null
    is absent."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    section: ClassVar[Section]

    @model_validator(mode="before")
    @classmethod
    def _apply_field_table(cls, data: Any, info: ValidationInfo) -> Any:
        if not isinstance(data, dict):
            return data
        refused = cls.section.refused(data)
        if refused is not None:
            raise PydanticCustomError(
                "unsupported_parameter",
                "{reason}",
                {"field": refused.name, "reason": f"Not supported: {refused.note}."},
            )
        wire_names = {info.alias or name for name, info in cls.model_fields.items()}
        known = {name: data[name] for name in data if name in wire_names}
        if _is_of_another_type(cls, data):
            return known
        context = info.context or {}
        unknown = data.keys() - known.keys() - cls.section.names("refused")
        if unknown and not context.get("allow_unknown"):
            raise PydanticCustomError("unknown_parameter", "Unknown parameter.", {"field": min(unknown)})
        if unknown:
            context["ignored"].extend(sorted(unknown))
        return {name: value for name, value in known.items() if value is not None}

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """As `_apply_field_table` reads it: null is absent, refused fields take what asks for nothing.
        Descriptions are the table's notes."""
        schema = handler.resolve_ref_schema(handler(core_schema))
        properties = schema.setdefault("properties", {})
        for name in properties.keys() - set(schema.get("required", ())):
            if {"type": "null"} not in properties[name].get("anyOf", ()):
                properties[name] = {"anyOf": [properties[name], {"type": "null"}]}
        for field in cls.section.fields:
            if field.status == "refused":
                properties[field.name] = {"enum": [*field.accepts, None]}
            if field.note and field.name in properties:
                properties[field.name] = {**properties[field.name], "description": field.note}
        return schema


def _is_of_another_type(model: type[BaseModel], data: dict[str, Any]) -> bool:
    """True if `type` says that this is something else: then that is the fault, not the fields that it
    brings along."""
    published = model.model_fields.get("type")
    return published is not None and "type" in data and data["type"] not in get_args(published.annotation)


def only(*types: str) -> BeforeValidator:
    """Refuses an object of any other `type` in so many words, before its other fields are looked at."""

    def check(value: Any) -> Any:
        kind = value.get("type") if isinstance(value, dict) else None
        if isinstance(kind, str) and kind not in types:
            reason = f"Not supported: `{kind[:50]}`; what is supported here is {', '.join(types)}."
            raise PydanticCustomError(
                "unsupported_parameter", "{reason}", {"field": "type", "reason": reason}
            )
        return value

    return BeforeValidator(check)


NO_SUCH = "no_such_"
"""Before the name of the key whose value names no member of a union: the type of such a fault."""


def told_apart_by(key: str, expected: str) -> Discriminator:
    """The member of a union is the one tagged `<value of key>`: no field is named like that, so paths stay
    clear."""

    def tag(value: Any) -> str | None:
        return f"<{value.get(key)}>" if isinstance(value, dict) else None

    return Discriminator(
        tag,
        custom_error_type=f"{NO_SUCH}{key}",
        custom_error_message=f"`{key}` must be one of {expected}.",
    )


WireT = TypeVar("WireT", bound=Wire)


def parse(model: type[WireT], data: Any, allow_unknown: bool = False) -> tuple[WireT, list[str]]:
    """`data` as `model`, and the unknown fields that were ignored. BadRequest names the first fault's
    place."""
    if not isinstance(data, dict):
        raise BadRequest("The request body must be a JSON object.", code="invalid_json")
    ignored: list[str] = []
    try:
        return model.model_validate(
            data, context={"allow_unknown": allow_unknown, "ignored": ignored}
        ), ignored
    except ValidationError as error:
        raise _bad_request(error, data) from None


def _bad_request(error: ValidationError, data: dict[str, Any]) -> BadRequest:
    """Of several faults (a union reports one for each branch) the deepest is the one that the client
    meant."""
    faults = error.errors(include_url=False, include_input=False)
    fault = max(faults, key=lambda fault: len(_path(fault, data)))
    param = "".join(
        f"[{step}]" if isinstance(step, int) else f".{step}" for step in _path(fault, data)
    ).lstrip(".")
    code = fault["type"] if fault["type"] in _OWN_CODES else _CODES.get(fault["type"], "invalid_value")
    message = _readable(fault["msg"])
    return BadRequest(f"{param or 'body'}: {message}", param=param or None, code=code)


_OWN_CODES = {"unsupported_parameter", "unknown_parameter"}
_CODES = {"missing": "missing_required_parameter", "extra_forbidden": "unknown_parameter"}


def _readable(message: str) -> str:
    """pydantic's words, without its names for Python's types."""
    message = re.sub(r"^Value error, ", "", message)
    message = message.replace("valid dictionary", "JSON object").replace("a valid list", "an array")
    return re.sub(r"(an object|JSON object) or instance of \w+", "JSON object", message)


def _path(fault: ErrorDetails, data: Any) -> list[str | int]:
    """The fault's place in `data`: pydantic's own, without the names of union branches (which are no
    keys)."""
    path: list[str | int] = []
    place: Any = data
    steps = fault["loc"]
    for index, step in enumerate(steps):
        if _holds(place, step):
            place = place[step]
        elif not (index == len(steps) - 1 and fault["type"] == "missing"):
            continue
        path.append(step)
    if fault["type"].startswith(NO_SUCH) and isinstance(place, dict):
        return [*path, fault["type"].removeprefix(NO_SUCH)]
    field = fault.get("ctx", {}).get("field")
    return [*path, field] if field is not None and fault["type"] in _OWN_CODES else path


def _holds(place: Any, step: str | int) -> bool:
    if isinstance(place, list):
        return isinstance(step, int) and step < len(place)
    return isinstance(place, dict) and step in place
