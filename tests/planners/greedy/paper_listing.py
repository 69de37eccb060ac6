"""Algorithms 6 to 13 of Lamprou et al. 2023, line by line, without alignment.

Written from the listings alone, with their slips repaired:

- the total is the largest ``offset + size``, as definition 5 and the examples have it, not the last
  used address;
- intervals are half-open; an object ends where its right end says, exclusively;
- in algorithm 7 the ``continue`` belongs to the unsafe test, the ``break`` to the branch that has
  found an offset, and the new object comes after the loop over objects;
- in algorithm 9 the next interval is taken on both branches, and intervals that touch merge.

``paper`` is Fit to the letter. It asks that the first tensor of a chain fits in front of the next
forbidden *start*, although these starts are widened by the sizes already. ``exact`` asks that some
start is free, and measures a gap by its free starts; one from which the chain reaches above all
that is placed is no hole to fill, and as unbounded as the last.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from math import inf

Interval = tuple[int, int]
Block = Sequence[int]
Candidate = tuple[int, float]
Offsets = dict[int, int]
Unsafe = Collection[tuple[int, int]]


@dataclass
class MemoryObject:
    """A range of the buffer with the blocks placed in it.

    ``top`` is where the placed blocks end, for an object that does not end itself.
    """

    offset: int
    right: float
    blocks: list[Block] = field(default_factory=list)
    top: float = inf


def are_unsafe(a: int, b: int, unsafe: Unsafe) -> bool:
    """Return whether two tensors may not share bytes."""
    return (min(a, b), max(a, b)) in unsafe


def avoid(
    new_block: Block, memory: MemoryObject, size: Sequence[int], offset: Offsets, unsafe: Unsafe
) -> list[Interval]:
    """Algorithm 8."""
    intervals: list[Interval] = []
    if len(new_block) == 1:
        for block in memory.blocks:
            for tensor in block:
                if are_unsafe(new_block[0], tensor, unsafe):
                    intervals.append((offset[tensor], offset[tensor] + size[tensor]))
        return intervals
    for block in memory.blocks:
        for tensor in block:
            accumulated = 0
            for new_tensor in new_block:
                if are_unsafe(new_tensor, tensor, unsafe):
                    start = offset[tensor] - size[new_tensor] + 1 - accumulated
                    end = offset[tensor] + size[tensor] - accumulated
                    if start >= memory.offset:
                        intervals.append((start, end))
                    elif end > memory.offset:
                        intervals.append((memory.offset, end))
                accumulated += size[new_tensor]
    return intervals


def merge(intervals: list[Interval]) -> list[Interval]:
    """Algorithm 9; the end of the list is the top of the stack."""
    stack: list[Interval] = []
    for left, right in sorted(intervals):
        if not stack or stack[-1][1] < left:
            stack.append((left, right))
        elif stack[-1][1] < right:
            stack[-1] = (stack[-1][0], right)
    return stack


def first_fit(candidate: Candidate) -> tuple[float, float]:
    """Algorithm 11, as a sort key."""
    lower, gap = candidate
    return lower, gap


def best_fit(candidate: Candidate) -> tuple[float, float]:
    """Algorithm 12, as a sort key."""
    lower, gap = candidate
    return gap, lower


FITTERS: dict[str, Callable[[Candidate], tuple[float, float]]] = {
    "first": first_fit,
    "best": best_fit,
}


def fit(
    block: Block,
    avoid_intervals: list[Interval],
    memory: MemoryObject,
    size: Sequence[int],
    fitter: str,
    chain_rule: str,
) -> int | None:
    """Algorithm 10."""
    block_size = sum(size[tensor] for tensor in block)
    compare_size = size[block[0]]
    by_starts = chain_rule == "exact" and len(block) > 1
    candidates: list[Candidate] = []
    upper: float = memory.right

    def consider(lower: int) -> None:
        if by_starts:
            free_starts = min(upper, memory.right - block_size + 1) - lower
            if free_starts > 0:
                reaches_above = lower + block_size > memory.top
                candidates.append((lower, inf if reaches_above else free_starts))
        elif lower + compare_size <= upper and lower + block_size <= memory.right:
            candidates.append((lower, upper - lower))

    stack = list(avoid_intervals)
    while stack:
        left, right = stack.pop()
        consider(right)
        upper = left
    consider(memory.offset)
    if not candidates:
        return None
    return min(candidates, key=FITTERS[fitter])[0]


def set_offsets(block: Block, start: int, size: Sequence[int], offset: Offsets) -> None:
    """Algorithm 13."""
    for tensor in block:
        offset[tensor] = start
        start += size[tensor]


def single_object(
    blocks: Sequence[Block],
    size: Sequence[int],
    unsafe: Unsafe,
    fitter: str,
    chain_rule: str = "paper",
) -> Offsets:
    """Algorithm 6, for blocks that are sorted."""
    offset: Offsets = {}
    memory = MemoryObject(0, inf, top=0)
    for block in blocks:
        intervals = merge(avoid(block, memory, size, offset, unsafe))
        start = fit(block, intervals, memory, size, fitter, chain_rule)
        assert start is not None, "an object without an end takes every block"
        memory.blocks.append(block)
        memory.top = max(memory.top, start + sum(size[tensor] for tensor in block))
        set_offsets(block, start, size, offset)
    return offset


def many_objects(
    blocks: Sequence[Block],
    size: Sequence[int],
    unsafe: Unsafe,
    fitter: str,
    chain_rule: str = "paper",
) -> Offsets:
    """Algorithm 7, for blocks that are sorted."""
    offset: Offsets = {}
    objects: list[MemoryObject] = []
    memory_end = 0
    for block in blocks:
        allocated = False
        for memory in objects:
            spanning = memory.blocks[0]
            if len(block) == 1 and len(spanning) == 1 and are_unsafe(block[0], spanning[0], unsafe):
                continue
            intervals = merge(avoid(block, memory, size, offset, unsafe))
            start = fit(block, intervals, memory, size, fitter, chain_rule)
            if start is not None:
                allocated = True
                memory.blocks.append(block)
                set_offsets(block, start, size, offset)
                break
        if not allocated:
            block_size = sum(size[tensor] for tensor in block)
            objects.append(MemoryObject(memory_end, memory_end + block_size, [block]))
            set_offsets(block, memory_end, size, offset)
            memory_end += block_size
    return offset
