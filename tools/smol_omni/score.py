"""How far what was understood is from what was said."""

import re


def words_of(text: str) -> list[str]:
    return re.sub(r"[^a-z0-9' ]", " ", text.lower()).split()


def errors(said: list[str], heard: list[str]) -> int:
    """The fewest words to change, add or leave out."""
    costs = list(range(len(heard) + 1))
    for row, word in enumerate(said, 1):
        before, costs[0] = costs[0], row
        for column, other in enumerate(heard, 1):
            before, costs[column] = (
                costs[column],
                min(costs[column] + 1, costs[column - 1] + 1, before + (word != other)),
            )
    return costs[-1]


def error_rate(pairs: list[tuple[str, str]]) -> float:
    """Word errors over words said, of (said, heard)."""
    counted = [(words_of(said), words_of(heard)) for said, heard in pairs]
    return sum(errors(*pair) for pair in counted) / sum(len(said) for said, _ in counted)
