"""The table of cases is complete, and every test that it names exists."""

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.server.cases import CASES, Covered

ROOT = Path(__file__).parents[2]
GROUPS = {"A": 16, "B": 11, "C": 6, "D": 19, "E": 11, "F": 9, "G": 11, "H": 7, "I": 13, "J": 9}


def test_every_row_is_there() -> None:
    expected = [f"{group}{number}" for group, last in GROUPS.items() for number in range(1, last + 1)]
    assert list(CASES) == expected


@pytest.mark.parametrize("case", CASES)
def test_every_row_has_tests_that_exist_or_a_reason(case: str) -> None:
    row = CASES[case]
    if not isinstance(row, Covered):
        assert len(row.reason) > 20
        return
    assert row.tests
    for node in row.tests:
        path, _, name = node.partition("::")
        assert name in _tests_of(path), node


@cache
def _tests_of(path: str) -> frozenset[str]:
    """Functions and machines of one file that pytest collects."""
    names = set()
    for node in ast.parse((ROOT / path).read_text()).body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if name.startswith("test_"):
                names.add(name)
            case ast.Assign(targets=[ast.Name(id=name)]) if name.startswith("Test"):
                names.add(name)
    return frozenset(names)
