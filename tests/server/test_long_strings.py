"""Long strings do not pass through the JSON parser, and nothing is read otherwise because of it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server import body, long_strings
from server.errors import BadRequest
from server.long_strings import lift, put_back


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight characters are long."""
    monkeypatch.setattr(long_strings, "LONG", 8)


def outcome(data: bytes) -> Any:
    try:
        return body.parse_json(data)
    except BadRequest as error:
        return error.message


def plainly(data: bytes) -> Any:
    try:
        return body._parsed(data)
    except BadRequest as error:
        return error.message


def test_a_data_url_is_lifted_and_put_back() -> None:
    url = "data:image/png;base64," + "A" * 100
    data = json.dumps({"a": [{"url": url}, "short", url], "b": url}).encode()
    lifted = lift(data)
    assert lifted is not None
    assert len(lifted.strings) == 3
    assert b"AAAA" not in lifted.rest
    value = json.loads(lifted.rest)
    assert put_back(value, data, lifted)
    assert value == json.loads(data)


LONG = "x" * 40


@pytest.mark.parametrize(
    "text",
    [
        "[" + "1, " * 30 + "2]",
        '{"a": 1' + " " * 60 + ', "b": 2}',
        f'{{"{LONG}": 1}}',
        f'"{LONG}"',
        f'["\\"{LONG}"]',
        f'["{LONG}\\""]',
        f'["{LONG}\\n"]',
        f'["{LONG}\n"]',
        f'["{LONG}ü"]',
        f'["{LONG}", NaN]',
        f'{{"a": "{LONG}", "a": 1}}',
        f'["{LONG}',
        f'["{LONG}" "{LONG}"]',
        f'["a"{LONG}"b"]',
        LONG,
    ],
)
def test_what_is_no_plain_string_is_read_as_it_came(text: str) -> None:
    assert outcome(text.encode()) == plainly(text.encode())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=60) | st.text("Az+/=:;", min_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=30), inner, max_size=4),
    max_leaves=8,
)


@given(value=JSON, ascii=st.booleans(), cut=st.integers(0, 400), extra=st.sampled_from(['"', "\\", "", "}"]))
def test_any_text_is_read_alike(value: Any, ascii: bool, cut: int, extra: str) -> None:
    text = json.dumps(value, ensure_ascii=ascii)
    spoiled = text[:cut] + extra + text[cut:]
    for data in (text.encode(), spoiled.encode()):
        assert outcome(data) == plainly(data)
