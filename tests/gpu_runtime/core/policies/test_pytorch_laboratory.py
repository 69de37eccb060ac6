"""Small programs of which it is published what PyTorch's allocator holds after each step.

The numbers are those of "When does fragmentation occur in the CUDA caching allocator?", in MiB.
"""

from __future__ import annotations

import pytest

from gpu_runtime._core import (
    LedgerMemory,
    OnlineAllocator,
    OnlineState,
    PytorchCaching,
    PytorchExpandable,
)

pytestmark = pytest.mark.core

MIB = 1 << 20
CAPACITY = 1 << 30
STATE_NAMES = {OnlineState.ALLOCATED: "active", OnlineState.FREE: "free"}


class Laboratory:
    """An allocator over a ledger, and the blocks of the experiment."""

    def __init__(self, *, is_expandable: bool) -> None:
        ledger = LedgerMemory(2 * MIB, CAPACITY)
        kind = PytorchExpandable if is_expandable else PytorchCaching
        self.allocator: OnlineAllocator = kind(ledger)

    def allocate(self, count: int, mib: float) -> list[int]:
        return [self.allocator.allocate(int(mib * MIB)) for _ in range(count)]

    def free(self, blocks: list[int]) -> None:
        for block in blocks:
            assert self.allocator.free(block)
        self.allocator.check()

    def reserved(self) -> float:
        return self.allocator.figures().reserved_bytes / MIB

    def layout(self) -> list[str]:
        """Return the mapped blocks of each segment, as ``16 active | 4 free``."""
        return [
            " | ".join(
                f"{block.bytes // MIB} {STATE_NAMES[block.state]}"
                for block in segment.blocks
                if block.state != OnlineState.UNMAPPED
            )
            for segment in self.allocator.segments()
        ]


def test_a_block_is_split_and_becomes_one_again() -> None:
    made = Laboratory(is_expandable=False)
    made.free(made.allocate(1, 32))
    first, second = made.allocate(2, 16)
    assert made.layout() == ["16 active | 16 active"]
    made.free([first])
    assert made.layout() == ["16 free | 16 active"]
    made.free([second])
    assert (made.layout(), made.reserved()) == (["32 free"], 32)


def test_small_then_large_needs_both_without_expandable_segments() -> None:
    made = Laboratory(is_expandable=False)
    small = made.allocate(8, 16)
    assert (len(made.layout()), made.reserved()) == (8, 128)
    made.free(small)
    assert (made.layout(), made.reserved()) == (["16 free"] * 8, 128)
    made.free(made.allocate(4, 32))
    assert (len(made.layout()), made.reserved()) == (12, 256)


def test_large_then_small_needs_the_large_ones_only() -> None:
    made = Laboratory(is_expandable=False)
    made.free(made.allocate(4, 32))
    assert (made.layout(), made.reserved()) == (["32 free"] * 4, 128)
    small = made.allocate(8, 16)
    assert (made.layout(), made.reserved()) == (["16 active | 16 active"] * 4, 128)
    made.free(small)
    assert made.reserved() == 128


def test_pages_are_mapped_as_memory_is_asked_for() -> None:
    made = Laboratory(is_expandable=True)
    mapped, free_at_end = [], []
    for _ in range(8):
        made.allocate(1, 16)
        mapped.append(made.reserved())
        free_at_end.append(made.reserved() - made.allocator.figures().allocated_bytes / MIB)
    assert mapped == [20, 40, 60, 80, 80, 100, 120, 140]
    assert free_at_end == [4, 8, 12, 16, 0, 4, 8, 12]


def test_the_order_does_not_matter_with_expandable_segments() -> None:
    made = Laboratory(is_expandable=True)
    made.free(made.allocate(8, 16))
    assert made.layout() == ["140 free"]
    made.free(made.allocate(4, 32))
    assert (made.layout(), made.reserved()) == (["140 free"], 140)


def test_what_lives_keeps_free_memory_apart() -> None:
    made = Laboratory(is_expandable=True)
    blocks = made.allocate(4, 16)
    made.free([blocks[0], blocks[2]])
    assert made.layout() == ["16 free | 16 active | 16 free | 16 active | 16 free"]
    assert made.reserved() == 80
    large = made.allocate(1, 32)
    assert made.reserved() == 100
    made.free(large)
    assert made.layout() == ["16 free | 16 active | 16 free | 16 active | 36 free"]
    made.free([blocks[1], blocks[3]])
    assert made.layout() == ["100 free"]
    made.free(made.allocate(1, 32))
    assert made.reserved() == 100


@pytest.mark.parametrize(("second", "reserved"), [(0.5, 22), (2, 20)])
def test_small_and_large_requests_share_nothing(second: float, reserved: int) -> None:
    made = Laboratory(is_expandable=True)
    made.free(made.allocate(1, 2))
    assert made.reserved() == 20
    made.free(made.allocate(1, second))
    assert made.reserved() == reserved
    made.allocator.give_back()
    made.allocator.check()
    assert (made.reserved(), made.layout()) == (0, [])


def test_segments_follow_from_the_request_that_needs_them() -> None:
    made = Laboratory(is_expandable=False)
    reserved = []
    # The third lies in what the second left, and so on.
    for mib in (1, 1 + 1 / 2048, 10, 10, 10 - 1 / 2048, 10 + 1 / 2048, 10 + 1 / 2048):
        made.allocate(1, mib)
        reserved.append(made.reserved())
    assert reserved == [2, 22, 22, 32, 52, 52, 64]
