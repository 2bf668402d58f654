"""One set of decoding processes for all tests of this folder: to start some takes longer than most tests."""

from collections.abc import Iterator
from typing import Any

import pytest

from server.child_pool import ChildPool

DECODER = "server.media.decoder"


class LentPool(ChildPool):
    """Whoever was lent it may close it, and closes nothing."""

    def close(self) -> None:
        pass


@pytest.fixture(scope="session")
def lent_pool() -> Iterator[ChildPool]:
    pool = LentPool(DECODER, 2 << 30, 2)
    yield pool
    ChildPool.close(pool)


@pytest.fixture(autouse=True)
def shared_decoders(lent_pool: ChildPool, monkeypatch: pytest.MonkeyPatch) -> None:
    def pool(module: str, *rest: Any) -> ChildPool:
        return lent_pool if module == DECODER else ChildPool(module, *rest)

    monkeypatch.setattr("server.media.decoders.ChildPool", pool)
