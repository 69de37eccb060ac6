"""Blocks with bytes of their own, which show whether anybody else got at them."""

from __future__ import annotations

import ctypes
from bisect import bisect_right, insort
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_runtime._core import BLOCK_ALIGNMENT, PlannedAllocator, ServingOnlineAllocator


@dataclass(frozen=True)
class Block:
    """A live block; `bytes` as requested."""

    address: int
    bytes: int
    stream: int
    stamp: int

    @property
    def end(self) -> int:
        """Where its last page may still be needed, rounded up as the allocator does."""
        return self.address + -(-self.bytes // BLOCK_ALIGNMENT) * BLOCK_ALIGNMENT

    def overlaps(self, other: Block) -> bool:
        """Return whether the two share a byte."""
        return self.address < other.end and other.address < self.end


class StampedBlocks:
    """Allocates, stamps every block, and checks the stamp before the block is freed."""

    def __init__(self, allocator: PlannedAllocator | ServingOnlineAllocator) -> None:
        self.allocator = allocator
        self.live: dict[int, Block] = {}
        self._sorted: list[int] = []
        self._stamps = 0

    def allocate(self, size: int, stream: int = 0) -> Block:
        """Return a new block, which shares no byte with a live one."""
        address = self.allocator.allocate(size, stream)
        assert address % BLOCK_ALIGNMENT == 0
        self._stamps += 1
        block = Block(address, size, stream, self._stamps)
        at = bisect_right(self._sorted, address)
        for neighbour in self._sorted[max(at - 1, 0) : at + 1]:
            assert not block.overlaps(self.live[neighbour])
        insort(self._sorted, address)
        self.live[address] = block
        bytes_at(block)[:] = pattern(block)
        return block

    def check(self, block: Block) -> None:
        """Hold the bytes of a block against its stamp."""
        assert np.array_equal(bytes_at(block), pattern(block)), f"{block} was written to"

    def forget(self, block: Block) -> None:
        """Check a block for the last time."""
        self.check(block)
        del self.live[block.address]
        self._sorted.remove(block.address)

    def free(self, block: Block) -> None:
        """Check a block and give it back."""
        self.forget(block)
        self.allocator.free(block.address)

    def check_all(self) -> None:
        """Check every live block, and the rules of the heap."""
        self.allocator.check()
        for block in self.live.values():
            self.check(block)
        assert self.allocator.figures().requested_bytes == sum(b.bytes for b in self.live.values())

    def free_all(self) -> None:
        """Give every live block back."""
        for block in list(self.live.values()):
            self.free(block)


def bytes_at(block: Block) -> NDArray[np.uint8]:
    """Return the bytes of a block, to be read and written."""
    memory = (ctypes.c_uint8 * block.bytes).from_address(block.address)
    return np.frombuffer(memoryview(memory), np.uint8)


def pattern(block: Block) -> NDArray[np.uint8]:
    """Return the bytes that a block has as long as nobody else writes to it."""
    stamp = np.frombuffer(block.stamp.to_bytes(7, "little"), np.uint8)
    return np.tile(stamp, -(-block.bytes // stamp.size))[: block.bytes]
