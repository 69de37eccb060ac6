"""A book of plans: the places of all kinds of step in one arena."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu_runtime._core import NO_PLACE, KindPlan
from gpu_runtime._core import Book as CoreBook
from gpu_runtime.allocator.book_problem import NO_GUESTS, BookProblem, book_problem
from gpu_runtime.allocator.step_kind import StepKind, block_bytes
from planners.errors import GaplessError
from planners.judged_run import run
from planners.model.bounds import bounds_of
from planners.model.budget import Budget
from planners.model.columns import BoolColumn, IntColumn
from planners.model.plan import Plan, Result, Status
from planners.registry import ChosenPlanner


@dataclass(frozen=True)
class Book:
    """A problem of kinds of step, and a valid plan of it."""

    problem: BookProblem
    result: Result

    @property
    def plan(self) -> Plan:
        """The offsets; there are some in any book."""
        assert self.result.plan is not None
        return self.result.plan

    @property
    def arena_bytes(self) -> int:
        """Bytes from the first place to the end of the last."""
        return self.plan.peak

    @property
    def lower_bound(self) -> int:
        """Bytes below which no arena of these kinds can stay."""
        return self.result.lower_bound

    @property
    def optimal(self) -> bool:
        """Whether no arena is smaller."""
        return self.result.status is Status.OPTIMAL

    @property
    def gap(self) -> float:
        """Share of the arena that a better plan might save."""
        return 1 - self.lower_bound / self.arena_bytes if self.arena_bytes else 0.0

    @property
    def numbers(self) -> list[int]:
        """Number of each kind, in the order in which the allocator has them."""
        return [kind.number for kind in self.problem.kinds]

    @cached_property
    def places(self) -> list[tuple[IntColumn, IntColumn]]:
        """The place and the spare one of each slot, by kind; :data:`NO_PLACE` where it has none."""
        return [(self._offsets_of(index, 0), self._offsets_of(index, 1)) for index in self._indices]

    def has_at_places(self, blocks: NDArray[np.int64]) -> BoolColumn:
        """Whether blocks ``(offset, bytes, request, kind, slot)`` lie where this plan has them."""
        at_place = np.zeros(len(blocks), dtype=np.bool_)
        for index in self._indices:
            its = np.flatnonzero(blocks[:, 3] == index)
            slot, offset = blocks[its, 4], blocks[its, 0]
            place, spare = self.places[index]
            at_place[its] = (place[slot] == offset) | (spare[slot] == offset)
        return at_place

    @property
    def guest_bytes(self) -> int:
        """Bytes of the blocks that the plan leaves where they are."""
        return int(self.problem.guests[:, 1].sum())

    @property
    def escaping_bytes(self) -> int:
        """Most bytes of the requests of a step that have no place, in whole blocks."""
        return max(
            int(block_bytes(kind.most[place == NO_PLACE]).sum())
            for kind, (place, _) in zip(self.problem.kinds, self.places, strict=True)
        )

    def core_book(self) -> CoreBook:
        """Return the book as the allocator takes it."""
        plans = [
            KindPlan(kind.label, kind.stream, kind.least, kind.most, place, spare)
            for kind, (place, spare) in zip(self.problem.kinds, self.places, strict=True)
        ]
        return CoreBook.with_hand_overs(plans, self.arena_bytes)

    @property
    def _indices(self) -> range:
        return range(len(self.problem.kinds))

    def _offsets_of(self, index: int, spare: int) -> IntColumn:
        offset = np.full(self.problem.kinds[index].slot_count, NO_PLACE, dtype=np.int64)
        its = (self.problem.kind == index) & (self.problem.is_spare == spare)
        offset[self.problem.slot[its]] = self.plan.offsets[its]
        return offset


class ReadyBook(NamedTuple):
    """A book, and the same one as the allocator takes it, once."""

    plan: Book
    core_book: CoreBook


def plan_book(
    kinds: Sequence[StepKind],
    planner: ChosenPlanner,
    budget: Budget,
    least_peak: int,
    guests: NDArray[np.int64] = NO_GUESTS,
) -> Book:
    """Plan kinds of step around guests; ``GaplessError`` where there is no valid plan.

    A planner that cannot go around anything plans as if nobody were there.
    """
    problem = book_problem(kinds, least_peak, guests)
    result = run(problem.problem, planner, budget, bounds_of(problem.problem))
    if result.status is Status.UNSUPPORTED and len(guests):
        return plan_book(kinds, planner, budget, least_peak)
    if result.interrupted:
        # A planner may keep its best plan at Ctrl-C. That is the program's to end by.
        raise KeyboardInterrupt
    if result.plan is None or not result.valid:
        raise GaplessError(f"planner {planner.label}: {result.status.value}, {result.reason}")
    return Book(problem, result)
