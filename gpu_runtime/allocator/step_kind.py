"""A kind of step: the requests that its steps make, how large, and how long their memory lives."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from gpu_runtime._core import BLOCK_ALIGNMENT, FIRST_ROLE
from gpu_runtime.allocator.step_segment import Segment
from planners.model.columns import BoolColumn, IntColumn

# Of two steps of one kind this share of the sizes is alike.
_ALIKE_SHARE = 0.9
# Sizes that all grew, or all shrank, are alike up to this factor: a sequence eight times as long
# has scores of attention 64 times as large. Others are up to the smaller one.
_ONE_WAY_FACTOR, _FACTOR = 64, 4


@dataclass
class StepKind:
    """Steps with the same requests on the same streams, of sizes that may differ.

    Time is counted as in :class:`Segment`. A *slot* is a request, by its number in the step.
    """

    # Of the kind, among all that a program ever had.
    number: int
    label: int
    stream: IntColumn
    # Bytes as requested: the smallest, the largest, and in the last step.
    least: IntColumn
    most: IntColumn
    last: IntColumn
    # The latest end of each slot within its own step; the number of slots where it was in use at
    # the end.
    end: IntColumn
    # The latest end of each slot among the steps that freed it themselves, 0 for none.
    short_end: IntColumn
    # Whether each slot was ever freed, and whether it was ever in use when it was asked for again.
    was_freed: BoolColumn
    renewed: BoolColumn
    # By number of a kind that came after it: until when each slot was in use there, at the latest.
    later: dict[int, IntColumn] = field(default_factory=dict)
    # How many steps there were, and which step of all came last.
    seen: int = 0
    last_seen: int = 0

    @classmethod
    def like(cls, segment: Segment, number: int) -> StepKind:
        """Return the kind of a step that is like no other, not yet seen."""
        count = segment.request_count
        return cls(
            number,
            segment.label,
            segment.stream,
            segment.size.copy(),
            segment.size.copy(),
            segment.size,
            np.zeros(count, dtype=np.int64),
            np.zeros(count, dtype=np.int64),
            np.zeros(count, dtype=np.bool_),
            np.zeros(count, dtype=np.bool_),
        )

    @property
    def slot_count(self) -> int:
        """Requests in a step."""
        return len(self.stream)

    @property
    def escapes(self) -> BoolColumn:
        """Whether each slot lives too long for a place: it is always renewed, or never freed."""
        has_short = self.short_end > 0
        return ~(self.was_freed & (has_short | ~self.renewed))

    @property
    def alternates(self) -> BoolColumn:
        """Whether each slot was renewed, and freed within its step at other times.

        Gradients are, where they are summed over several steps: the first one stays, and the later
        ones are added to it.
        """
        has_short = self.short_end > 0
        return self.was_freed & self.renewed & has_short

    def on_streams(self, stream: IntColumn) -> StepKind:
        """Return the same kind whose streams have other names."""
        return replace(self, stream=stream)

    def roles_of(self, segment: Segment) -> dict[int, int] | None:
        """Return who the streams of a step are, by the roles of this kind; None where unlike."""
        if self.label != segment.label or self.slot_count != segment.request_count:
            return None
        if np.array_equal(self.stream, segment.stream):
            return {}
        is_role = self.stream >= FIRST_ROLE
        if not np.array_equal(self.stream[~is_role], segment.stream[~is_role]):
            return None
        pairs = np.unique(np.stack([self.stream[is_role], segment.stream[is_role]]), axis=1)
        roles = dict(zip(*pairs.tolist(), strict=True))
        one_to_one = len(roles) == pairs.shape[1] == len(set(roles.values()))
        return roles if one_to_one else None

    def is_alike(self, size: IntColumn) -> bool:
        """Whether sizes may be those of another step of this kind."""
        if not len(size):
            return True
        enough = math.ceil(_ALIKE_SHARE * len(size))
        larger, smaller = np.maximum(size, self.last), np.minimum(size, self.last)
        if np.count_nonzero(larger <= _FACTOR * smaller) >= enough:
            return True
        near = larger <= _ONE_WAY_FACTOR * smaller
        grown = np.count_nonzero(near & (size >= self.last))
        shrunk = np.count_nonzero(near & (size <= self.last))
        return bool(max(grown, shrunk) >= enough)

    def widen(self, size: IntColumn) -> bool:
        """Take the sizes of another step; return whether a plan has to know."""
        varies = self.least != self.most
        is_news = bool(np.any((size > self.most) | ~varies & (size < self.least)))
        self.least = np.minimum(self.least, size)
        self.most = np.maximum(self.most, size)
        self.last = size
        return is_news

    def extend(self, end: IntColumn, freed: BoolColumn) -> bool:
        """Take ends within the own step, and what was freed in it; return whether any is news."""
        slots = np.arange(self.slot_count)
        is_news = _raise_to(self.end, slots, end) | self.take_freed(slots[freed])
        # A place for a short life matters where one for a long life is held.
        return is_news | _raise_to(self.short_end, slots[freed], end[freed])

    def extend_in(self, kind: StepKind, slot: IntColumn, end: IntColumn) -> bool:
        """Take ends within a later step of a kind; return whether any is later than known."""
        known = self.later.get(kind.number)
        if known is None:
            if not np.any(end):
                return False
            known = self.later[kind.number] = np.zeros(self.slot_count, dtype=np.int64)
        changed = _raise_to(known, slot, end)
        if kind is self:
            late = slot[end > slot]
            changed |= not bool(np.all(self.renewed[late]))
            self.renewed[late] = True
        return changed

    def take_freed(self, slot: IntColumn) -> bool:
        """Take slots that were freed; return whether any never was before."""
        is_news = not bool(np.all(self.was_freed[slot]))
        self.was_freed[slot] = True
        return is_news


def block_bytes(size: IntColumn) -> IntColumn:
    """Return sizes in bytes rounded up to whole blocks of the allocator."""
    return -(-size // BLOCK_ALIGNMENT) * BLOCK_ALIGNMENT


def _raise_to(known: IntColumn, slot: IntColumn, end: IntColumn) -> bool:
    is_news = bool(np.any(end > known[slot]))
    if is_news:
        np.maximum.at(known, slot, end)
    return is_news
