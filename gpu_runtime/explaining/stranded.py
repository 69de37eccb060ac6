"""Reserved memory that no live block has, by cause.

Each byte has one cause, so the causes add up to reserved less allocated bytes.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from instances.formats.pytorch_snapshot import AskedRequest
from instances.traces.memory_state import PLANNED_POOL, SMALL_BYTES, Block, BlockState, Segment


class Cause(enum.StrEnum):
    """Why a request could not have a byte that was reserved."""

    SPLIT = "free, in segments that live blocks keep"
    WAITING = "freed, but another stream may still use it"
    PRIVATE = "free, in a private pool"
    PLANNED = "free, at places of a plan"
    IDLE = "free, in whole segments"


@dataclass(frozen=True)
class Holder:
    """A segment with stranded bytes, and the blocks that hold them: those that wait, or live."""

    segment: Segment
    stranded: int
    blocks: Sequence[Block]

    @property
    def smallest(self) -> Block:
        return min(self.blocks, key=lambda block: block.size)


@dataclass(frozen=True)
class Stranded:
    """The bytes of one cause in one pool and stream."""

    cause: Cause
    pool: int
    stream: int
    size: int
    # Those with the most stranded bytes first; whole segments are held by no block.
    holders: Sequence[Holder]


@dataclass(frozen=True)
class FreeRange:
    """The largest free range of one pool and stream, and all its free bytes."""

    pool: int
    stream: int
    is_small: bool
    largest: int
    free: int

    def reason_against(self, asked: AskedRequest) -> str:
        """Return why the range did not serve a request; empty if it could."""
        reasons = (
            (self.pool != asked.pool, "another pool"),
            (self.stream != asked.stream, "another stream"),
            (self.is_small and asked.size > SMALL_BYTES, "for requests up to 1 MiB"),
            (not self.is_small and asked.size <= SMALL_BYTES, "for requests above 1 MiB"),
            (self.largest < asked.size, "too short"),
        )
        return "; ".join(reason for holds, reason in reasons if holds)


def find_stranded(segments: Sequence[Segment]) -> list[Stranded]:
    """Return the stranded bytes by cause, pool and stream, the most first."""
    found: dict[tuple[Cause, int, int], list[Holder]] = defaultdict(list)
    for segment in segments:
        live, waiting = (
            [block for block in segment.blocks if block.state is state]
            for state in (BlockState.LIVE, BlockState.WAITING)
        )
        wait = sum(block.size for block in waiting)
        free = segment.size - wait - sum(block.size for block in live)
        for cause, size in ((Cause.WAITING, wait), (_cause(segment), free)):
            if size:
                # Blocks that wait keep a segment as live ones do.
                blocks = waiting if cause is Cause.WAITING or not live else live
                found[cause, segment.pool, segment.stream].append(Holder(segment, size, blocks))
    stranded = [
        Stranded(*key, sum(holder.stranded for holder in holders),
                 sorted(holders, key=lambda one: -one.stranded))
        for key, holders in found.items()
    ]  # fmt: skip
    return sorted(stranded, key=lambda one: (-one.size, one.cause, one.pool, one.stream))


def _cause(segment: Segment) -> Cause:
    if segment.pool:
        return Cause.PLANNED if segment.pool == PLANNED_POOL else Cause.PRIVATE
    held = any(block.state is not BlockState.FREE for block in segment.blocks)
    return Cause.SPLIT if held else Cause.IDLE


def free_ranges(segments: Sequence[Segment]) -> list[FreeRange]:
    """Return the largest free range of each pool and stream, the largest first."""
    sizes: dict[tuple[int, int, bool], list[int]] = defaultdict(list)
    for segment in segments:
        free = [block.size for block in segment.blocks if block.state is BlockState.FREE]
        sizes[segment.pool, segment.stream, segment.is_small] += free
    found = [FreeRange(*key, max(free), sum(free)) for key, free in sizes.items() if free]
    return sorted(found, key=lambda one: (-one.largest, one.pool, one.stream, one.is_small))
