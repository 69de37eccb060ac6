"""What a program does, step by step: its kinds of step, learnt from the allocator's log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from gpu_runtime.allocator.step_kind import StepKind, block_bytes
from gpu_runtime.allocator.step_segment import Segment, segments_of
from planners.model.columns import BoolColumn, IntColumn

# Kinds that are planned, and that have been seen once; the least recently seen goes.
MOST_KINDS = 16
# Of more requests no kind is made.
MOST_REQUESTS = 1 << 17
# A kind is planned when it was seen so often.
REPEATED = 2


class StepModel:
    """The kinds of step of a program, and the memory that is in use.

    A step of a kind that was never seen makes a kind; it counts from the second one on.
    """

    def __init__(self, kinds: Iterable[StepKind] = ()) -> None:
        self._kinds = {kind.number: kind for kind in kinds}
        self._next_number = 1 + max(self._kinds, default=-1)
        self._segment = max((kind.last_seen for kind in self._kinds.values()), default=0)
        # Rises with everything that a plan has to know.
        self.version = int(bool(self._kinds))
        # Whether the last step was of a kind that was seen before.
        self.knew_last_step = False
        # What is in use of earlier segments: number of the request, kind and slot.
        self._live: NDArray[np.int64] = np.empty((3, 0), dtype=np.int64)

    @property
    def kinds(self) -> list[StepKind]:
        """All kinds with any requests."""
        return [kind for kind in self._kinds.values() if kind.slot_count]

    @property
    def repeated(self) -> list[StepKind]:
        """Those of which there was more than one step, in the order in which there first was."""
        return [kind for kind in self.kinds if kind.seen >= REPEATED]

    def add(self, rows: NDArray[np.int64], in_book: Sequence[int]) -> None:
        """Learn from the log of a step and of what ran before it.

        `in_book` has the number of each kind of the book that was in force meanwhile.
        """
        numbers = np.array([*in_book, -1], dtype=np.int64)
        for segment in segments_of(rows):
            if segment.request_count > MOST_REQUESTS:
                self.lose_track()
            else:
                self._add(segment, numbers)

    def lose_track(self) -> None:
        """Say that the log of a step is not read."""
        self._live = self._live[:, :0]

    def saw(self, numbers: Iterable[int]) -> None:
        """Take steps of known kinds, whose log is not read."""
        for number in numbers:
            self._segment += 1
            if kind := self._kinds.get(number):
                self._count(kind)
                self.knew_last_step = True

    def stays(self, request: IntColumn) -> BoolColumn:
        """Return which requests in use are known to stay: of no kind that counts, or never freed.

        Not those of which nothing is known.
        """
        known, number, slot = self._live
        stays = np.zeros(len(known), dtype=np.bool_)
        for theirs in np.unique(number).tolist():
            kind, its = self._kinds.get(theirs), number == theirs
            is_kind = kind is not None and kind.seen >= REPEATED
            stays[its] = kind.escapes[slot[its]] if kind and is_kind else True
        return np.isin(request, known[stays])

    def live_bytes(self) -> int:
        """Return the bytes in use of earlier steps, in whole blocks, as far as they were seen."""
        total = 0
        for number in np.unique(self._live[1]).tolist():
            if (kind := self._kinds.get(number)) and kind.seen >= REPEATED:
                slots = self._live[2, self._live[1] == number]
                total += int(block_bytes(kind.last[slots]).sum())
        return total

    def _add(self, segment: Segment, in_book: IntColumn) -> None:
        self._segment += 1
        kind = self._kind_of(segment)
        if segment.label >= 0:
            self.knew_last_step = kind.seen > 0
        is_news = self._count(kind) | kind.widen(segment.size)
        is_news |= self._end_earlier(segment, kind, in_book)
        is_news |= self._end_own(segment, kind)
        if is_news and segment.request_count:
            self.version += 1
        self._forget()

    def _count(self, kind: StepKind) -> bool:
        """Count a step of a kind; return whether it counts from now on."""
        kind.last_seen = self._segment
        kind.seen += 1
        if kind.seen != REPEATED:
            return False
        # The order of the kinds that count is that in which they began to.
        self._kinds[kind.number] = self._kinds.pop(kind.number)
        return True

    def _kind_of(self, segment: Segment) -> StepKind:
        found = None
        for kind in self._kinds.values():
            roles = kind.roles_of(segment)
            if roles is None or not kind.is_alike(segment.size):
                continue
            if found is None or _unlikeness(kind, segment) < _unlikeness(found, segment):
                found = kind
        if found is None:
            found = StepKind.like(segment, self._next_number)
            self._kinds[self._next_number] = found
            self._next_number += 1
        elif roles := found.roles_of(segment):
            self._name_streams(roles)
        return self._kinds[found.number]

    def _name_streams(self, roles: dict[int, int]) -> None:
        for kind in list(self._kinds.values()):
            stream = kind.stream.copy()
            for role, handle in roles.items():
                stream[kind.stream == role] = handle
            self._kinds[kind.number] = kind.on_streams(stream)

    def _end_own(self, segment: Segment, kind: StepKind) -> bool:
        """Take the ends of a segment's own requests; what is left is in use from now on."""
        count = segment.request_count
        first = int(segment.request[0]) if count else 0
        slot = segment.freed - first
        own = (slot >= 0) & (slot < count)
        end = np.full(count, count, dtype=np.int64)
        end[slot[own]] = segment.freed_at[own]
        freed = np.zeros(count, dtype=np.bool_)
        freed[slot[own]] = True
        is_news = kind.extend(end, freed)
        # Of what is in use whenever it is asked for again nothing else is to be learnt.
        left = np.flatnonzero(~freed & ~(kind.escapes & kind.was_freed))
        living = np.stack([segment.request[left], np.full(len(left), kind.number), left])
        self._live = np.concatenate([self._live, living], axis=1)
        return is_news and kind.seen >= REPEATED

    def _end_earlier(self, segment: Segment, kind: StepKind, in_book: IntColumn) -> bool:
        """Take the ends of what was in use when a segment began."""
        request, number, slot = self._live
        # Requests are numbered as they come, so that both are in order.
        order = np.argsort(segment.freed, kind="stable")
        freed = segment.freed[order]
        at = np.minimum(np.searchsorted(freed, request), max(len(freed) - 1, 0))
        ended = freed[at] == request if len(freed) else np.zeros(len(request), dtype=np.bool_)
        end = np.full(len(request), segment.request_count, dtype=np.int64)
        end[ended] = segment.freed_at[order[at[ended]]]
        # What the book knows of requests whose log nobody read.
        unread = segment.freed_kind >= 0
        if segment.request_count:
            unread &= segment.freed < segment.request[0]
        # Most frees are of the segment's own requests, and a search takes longest of all here.
        unread[unread] = ~np.isin(segment.freed[unread], request)
        their_kind = in_book[np.minimum(segment.freed_kind[unread], len(in_book) - 1)]
        number = np.concatenate([number, their_kind])
        slot = np.concatenate([slot, segment.freed_slot[unread]])
        end = np.concatenate([end, segment.freed_at[unread]])
        was_freed = np.concatenate([ended, np.ones(len(their_kind), dtype=np.bool_)])
        is_news = False
        for theirs in np.unique(number).tolist():
            owner = self._kinds.get(theirs)
            if owner is None:
                continue
            its = number == theirs
            changed = owner.extend_in(kind, slot[its], end[its])
            changed |= owner.take_freed(slot[its & was_freed])
            is_news |= changed and owner.seen >= REPEATED
        self._live = self._live[:, ~ended]
        return is_news

    def _forget(self) -> None:
        for planned in (False, True):
            kinds = [kind for kind in self.kinds if (kind.seen >= REPEATED) == planned]
            if len(kinds) > MOST_KINDS:
                oldest = min(kinds, key=lambda kind: kind.last_seen)
                del self._kinds[oldest.number]
                for kind in self._kinds.values():
                    kind.later.pop(oldest.number, None)


def _unlikeness(kind: StepKind, segment: Segment) -> int:
    """Return how many sizes were never seen."""
    return int(np.count_nonzero((segment.size < kind.least) | (segment.size > kind.most)))
