"""One row of the table of published request fields: what this server does with a field, and why.

The table is the source of the wire types' refusals and of docs/api.md; a test walks the official client's
types and fails if one of their fields has no row. Rows know names and reasons, not types: those are in the
wire models."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

Status = Literal["honoured", "harmless", "refused"]


class Field(NamedTuple):
    """One field. `accepts`: values of a refused field that ask for nothing, and so pass (null always
    does)."""

    name: str
    status: Status
    note: str = ""
    accepts: tuple[Any, ...] = ()
    extension: bool = False


class Section(NamedTuple):
    """The fields of one JSON object. `title` heads it in the reference."""

    title: str
    fields: tuple[Field, ...]

    def refused(self, data: dict[str, Any]) -> Field | None:
        """The first refused field that `data` sets to something that would change the answer."""
        for field in self.fields:
            if field.status != "refused" or data.get(field.name) is None:
                continue
            if not any(_same(data[field.name], value) for value in field.accepts):
                return field
        return None

    def names(self, *statuses: Status) -> set[str]:
        return {field.name for field in self.fields if field.status in statuses}


def _same(value: Any, accepted: Any) -> bool:
    return type(value) is type(accepted) and value == accepted


def honoured(name: str, note: str = "", *, extension: bool = False) -> Field:
    return Field(name, "honoured", note, extension=extension)


def harmless(name: str, note: str, *, extension: bool = False) -> Field:
    return Field(name, "harmless", note, extension=extension)


def refused(name: str, note: str, accepts: Sequence[Any] = ()) -> Field:
    return Field(name, "refused", note, tuple(accepts))


def sections_in(namespace: dict[str, Any]) -> tuple[Section, ...]:
    """Those that a module defines, in their order."""
    return tuple(value for value in namespace.values() if isinstance(value, Section))
