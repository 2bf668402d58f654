"""Things drawn by group: each group has its share, however many members it has."""

import random
from collections import defaultdict
from collections.abc import Mapping


class Shares:
    """`draw` picks a group in proportion to the shares of those that have members, then a member of it."""

    def __init__(self, shares: Mapping[str, float]) -> None:
        self.shares = shares
        self.groups: dict[str, list[int]] = defaultdict(list)

    def add(self, group: str, member: int) -> None:
        self.groups[group].append(member)

    def draw(self, rng: random.Random) -> int:
        names = list(self.groups)
        return rng.choice(self.groups[rng.choices(names, [self.shares[name] for name in names])[0]])
