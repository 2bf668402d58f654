import pytest

from kvcache.pool import BlockPool


def test_hands_out_the_oldest_first():
    pool = BlockPool(4)
    assert [pool.take() for _ in range(4)] == [0, 1, 2, 3]
    for block in (2, 0, 3, 1):
        pool.release(block, reusable=True)
    assert list(pool.free_blocks()) == [2, 0, 3, 1]
    assert pool.take() == 2


def test_what_cannot_be_found_again_goes_first():
    pool = BlockPool(3)
    for _ in range(3):
        pool.take()
    pool.release(0, reusable=True)
    pool.release(1, reusable=True)
    pool.release(2, reusable=False)
    assert list(pool.free_blocks()) == [2, 0, 1]
    pool.demote(1)
    assert list(pool.free_blocks()) == [1, 2, 0]


def test_a_free_block_is_taken_up_again_from_anywhere():
    pool = BlockPool(4)
    for block in (1, 3, 0):
        pool.acquire(block)
        assert block not in pool.free_blocks()
    pool.check_integrity([0, 1, 3])
    assert (pool.num_free, list(pool.free_blocks())) == (1, [2])


def test_counts():
    pool = BlockPool(2)
    block = pool.take()
    pool.acquire(block)
    pool.release(block, reusable=True)
    assert (pool.count(block), pool.num_free) == (1, 1)
    pool.demote(block)
    assert (pool.count(block), pool.num_free) == (1, 1)
    pool.release(block, reusable=True)
    assert (pool.count(block), pool.num_free) == (0, 2)
    with pytest.raises(ValueError, match="free already"):
        pool.release(block, reusable=True)


def test_empty():
    pool = BlockPool(1)
    pool.take()
    with pytest.raises(IndexError):
        pool.take()
    with pytest.raises(ValueError, match="at least one"):
        BlockPool(0)


def test_integrity_notices_a_lost_reference():
    pool = BlockPool(2)
    pool.take()
    pool.check_integrity([0])
    for wrong in ([], [0, 0], [1]):
        with pytest.raises(AssertionError, match="counts"):
            pool.check_integrity(wrong)
