"""Memories: ranges of one address space, each with a capacity, in which tensors may lie."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from planners.errors import InstanceError
from planners.model.columns import is_whole, listed_values
from planners.text.plain_text import shown

# Limits the end of the last memory, so that no sum of addresses overflows.
MAX_ADDRESS = 1 << 61


@dataclass(frozen=True)
class Memory:
    """A range of addresses.

    All memories of a problem lie in one address space, and the offset of a tensor is its address.
    So two tensors in different memories share no byte, and a plan needs no other column.

    Parameters
    ----------
    name
        For messages and tables.
    begin
        Its first address, bytes; a multiple of every alignment.
    capacity
        Bytes.
    alignment
        Power of two: every tensor in it begins at a multiple of this and of its own alignment, but
        those that follow another in a chain.
    reserved
        Pairs of offsets from ``begin``, half-open and rising: bytes that no tensor may use.

    Raises
    ------
    InstanceError
        A field is out of its range.
    """

    name: str
    begin: int
    capacity: int
    alignment: int = 1
    reserved: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.isprintable():
            self._refuse("name", "a string of printable characters", self.name)
        if not is_whole(self.begin, 0, MAX_ADDRESS):
            self._refuse("begin", "an address from 0 to 2**61", self.begin)
        if not is_whole(self.capacity, 0, MAX_ADDRESS - self.begin):
            self._refuse("capacity", "bytes that end at 2**61 or below", self.capacity)
        if not is_whole(self.alignment, 1, 1 << 40) or self.alignment & (self.alignment - 1):
            self._refuse("alignment", "a power of two up to 2**40", self.alignment)
        rows = tuple(map(tuple, listed_values("memories, reserved", self.reserved)))
        for row in rows:
            if len(row) != 2 or not all(map(is_whole, row)) or not row[0] < row[1] <= self.capacity:
                self._refuse("reserved", f"[begin, end) within {self.capacity} bytes", row)
        for row, after in pairwise(rows):
            if after[0] < row[1]:
                self._refuse("reserved", f"a range that begins at {row[1]} or above", after)
        object.__setattr__(self, "reserved", rows)

    @property
    def end(self) -> int:
        """The address behind its last byte."""
        return self.begin + self.capacity

    def free_ranges(self) -> list[tuple[int, int]]:
        """Return the ranges of addresses between its reserved ones, ascending."""
        used = [0, *(at for row in self.reserved for at in row), self.capacity]
        edges = [self.begin + at for at in used]
        return [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if a < b]

    def _refuse(self, field: str, rule: str, value: object) -> None:
        raise InstanceError(
            f"field memories, {shown(self.name)}, {field}: {rule} is needed, found {shown(value)}"
        )


def take_memories(memories: Iterable[Memory]) -> tuple[Memory, ...]:
    """Return memories that are apart and ascending."""
    taken = tuple(listed_values("memories", memories))
    for memory in taken:
        if not isinstance(memory, Memory):
            raise InstanceError(f"field memories: a Memory is needed, found {shown(memory)}")
    if len({memory.name for memory in taken}) < len(taken):
        raise InstanceError("field memories: every name comes once")
    for first, second in pairwise(taken):
        if second.begin < first.end:
            raise InstanceError(
                f"field memories, {shown(second.name)}, begin: memories are apart and ascending, "
                f"found {second.begin}; {shown(first.name)} ends at {first.end}"
            )
    return taken
