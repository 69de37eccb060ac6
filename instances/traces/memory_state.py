"""The state of an allocator at one moment: segments, and the blocks in them."""

from __future__ import annotations

import enum
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from instances.traces.allocation_trace import SEGMENT_KINDS, AllocationTrace
from planners.errors import InstanceError

MAPPED_KINDS = [SEGMENT_KINDS.index(name) for name in ("segment_map", "segment_unmap")]
GROWING_KINDS = [SEGMENT_KINDS.index(name) for name in ("segment_alloc", "segment_map")]
# PyTorch rounds requests up to this, and serves those of up to 1 MiB from segments of their own,
# which have 2 MiB each unless they are expandable.
ROUNDING_BYTES = 512
SMALL_BYTES = 1 << 20
SMALL_SEGMENT_BYTES = 1 << 21
# Stands for the pool of a segment whose blocks a plan places.
PLANNED_POOL = -1


class BlockState(enum.Enum):
    """Whether a block is in use."""

    LIVE = "live"
    # The program freed it, and another stream may still use it.
    WAITING = "waiting"
    FREE = "free"


@dataclass(frozen=True, slots=True)
class Block:
    """A range of a segment."""

    address: int
    size: int
    # Bytes as requested; 0 of a free block.
    requested: int
    state: BlockState
    # What it holds and where it was allocated, if that is known.
    told: str = ""


@dataclass(frozen=True, slots=True)
class Segment:
    """Memory from the device at one range of addresses; bytes in no block are unknown."""

    address: int
    size: int
    stream: int
    pool: int
    blocks: Sequence[Block]
    # True if it serves requests of up to 1 MiB only.
    is_small: bool = False
    is_expandable: bool = False

    def __post_init__(self) -> None:
        if (inside := sum(block.size for block in self.blocks)) > self.size:
            raise InstanceError(
                f"segment at {self.address:#x}: its blocks have at most its {self.size} bytes, "
                f"found {inside}"
            )


def segments_at(trace: AllocationTrace, event: int, last: Sequence[Segment]) -> Sequence[Segment]:
    """Return the segments just before an event of a trace that ended with the segments `last`.

    Changes of segments after that moment are undone. The bytes of a block that was freed later are
    its request's, rounded up, and what behind them is too short for a block of its own.
    """
    live = np.flatnonzero(((trace.alloc < event) | trace.before) & (trace.freed >= event))
    ranges = _ranges_at(trace, event, last)
    live = live[np.argsort(trace.address[live], kind="stable")]
    addresses = trace.address[live].tolist()
    known = {block.address: block for each in last for block in each.blocks if block.requested}
    found = []
    for segment in ranges:
        end = segment.address + segment.size
        first, behind = bisect_left(addresses, segment.address), bisect_left(addresses, end)
        inside = live[first:behind]
        is_small = segment.is_small
        if len(inside):
            is_small = int(trace.size[inside].max()) <= SMALL_BYTES
        blocks = []
        bounds = pairwise([*addresses[first:behind], end])
        for request, (address, behind_it) in zip(inside.tolist(), bounds, strict=True):
            requested, most = int(trace.size[request]), behind_it - address
            size = -(-requested // ROUNDING_BYTES) * ROUNDING_BYTES
            told, seen = trace.module_of(request), known.get(address)
            if seen is not None and trace.freed[request] == trace.event_count:
                size, told = seen.size, told or seen.told
            elif not is_small and most - size <= SMALL_BYTES:
                size = most
            is_live = trace.free_requested[request] >= event
            state = BlockState.LIVE if is_live else BlockState.WAITING
            blocks.append(Block(address, min(size, most), min(requested, most), state, told))
        pool = segment.pool or int(trace.pool[inside].max(initial=0))
        filled = with_free_blocks(segment.address, segment.size, blocks)
        found.append(replace(segment, pool=pool, blocks=filled, is_small=is_small))
    return found


def serves_small(size: int, blocks: Iterable[Block]) -> bool:
    """Return True if a segment is for small requests, which its blocks or else its size tell."""
    used = [block.size for block in blocks if block.state is not BlockState.FREE]
    return max(used) <= SMALL_BYTES if used else size <= SMALL_SEGMENT_BYTES


def with_free_blocks(begin: int, size: int, blocks: Iterable[Block]) -> list[Block]:
    """Return blocks by address with free ones between them."""
    filled, at = [], begin
    for block in [*blocks, Block(begin + size, 0, 0, BlockState.FREE)]:
        if block.address > at:
            filled.append(Block(at, block.address - at, 0, BlockState.FREE))
        if block.size:
            filled.append(block)
        at = block.address + block.size
    return filled


def _ranges_at(trace: AllocationTrace, event: int, last: Sequence[Segment]) -> list[Segment]:
    ranges = sorted(last, key=lambda segment: segment.address)
    begins = [segment.address for segment in ranges]
    for when, kind, address, size, stream in trace.segments[::-1].tolist():
        if when < event:
            break
        is_mapped, end = kind in MAPPED_KINDS, address + size
        first = max(0, bisect_left(begins, address + 1) - 1)
        behind = bisect_left(begins, end)
        rest = []
        for one in ranges[first:behind]:
            its_end = one.address + one.size
            for begin, stop in (
                (one.address, min(its_end, address)),
                (max(one.address, end), its_end),
            ):
                if begin < stop:
                    rest.append(replace(one, address=begin, size=stop - begin, blocks=()))
        if kind not in GROWING_KINDS:
            is_small = size <= SMALL_SEGMENT_BYTES
            rest.append(Segment(address, size, stream, 0, (), is_small, is_mapped))
            rest.sort(key=lambda one: one.address)
        ranges[first:behind] = rest
        begins[first:behind] = [one.address for one in rest]
    return _joined(ranges)


def _joined(ranges: Sequence[Segment]) -> list[Segment]:
    """Return ranges with adjacent ones of an expandable segment, which has one stream, as one."""
    joined: list[Segment] = []
    for one in ranges:
        last = joined[-1] if joined else one
        is_behind = (last.address + last.size, last.stream, last.pool == PLANNED_POOL) == (
            one.address, one.stream, one.pool == PLANNED_POOL
        )  # fmt: skip
        if is_behind and last.is_expandable and one.is_expandable:
            joined[-1] = replace(
                last,
                size=last.size + one.size,
                pool=last.pool or one.pool,
                is_small=last.is_small and one.is_small,
                blocks=(),
            )
        else:
            joined.append(replace(one, blocks=()))
    return joined
