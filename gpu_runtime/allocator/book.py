"""A book: one plan with the places of the requests of all kinds of step, in one arena."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

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
    """The problem of placing the requests of several kinds of step, and a valid plan of it."""

    problem: BookProblem
    result: Result

    @property
    def plan(self) -> Plan:
        """The plan, which every book has."""
        assert self.result.plan is not None
        return self.result.plan

    @property
    def arena_bytes(self) -> int:
        """Bytes of the arena: the peak of the plan."""
        return self.plan.peak

    @property
    def lower_bound(self) -> int:
        """Proven lower bound on the arena bytes of any plan of this problem."""
        return self.result.lower_bound

    @property
    def optimal(self) -> bool:
        """Return True if no plan of this problem has a smaller arena, by proof."""
        return self.result.status is Status.OPTIMAL

    @property
    def gap(self) -> float:
        """Share of the arena that a better plan might save."""
        return 1 - self.lower_bound / self.arena_bytes if self.arena_bytes else 0.0

    @property
    def numbers(self) -> list[int]:
        """The numbers of the kinds, in the order of the plans in the allocator's book."""
        return [kind.number for kind in self.problem.kinds]

    @cached_property
    def places(self) -> list[tuple[IntColumn, IntColumn]]:
        """For each kind, the offsets of the place and of the spare place of each slot.

        :data:`NO_PLACE` stands for a place that a slot does not have.
        """
        return [(self._offsets_of(index, 0), self._offsets_of(index, 1)) for index in self._indices]

    def has_at_places(self, blocks: NDArray[np.int64]) -> BoolColumn:
        """Return True for each block that lies at a place of its slot in this plan.

        `blocks` has rows ``(offset, bytes, request, kind, slot)``, with the index of the kind.
        """
        at_place = np.zeros(len(blocks), dtype=np.bool_)
        for index in self._indices:
            its = np.flatnonzero(blocks[:, 3] == index)
            slot, offset = blocks[its, 4], blocks[its, 0]
            place, spare = self.places[index]
            at_place[its] = (place[slot] == offset) | (spare[slot] == offset)
        return at_place

    @property
    def guest_bytes(self) -> int:
        """Bytes of the guests, blocks of the arena that the plan does not move."""
        return int(self.problem.guests[:, 1].sum())

    @property
    def escaping_bytes(self) -> int:
        """Most block bytes that requests without a place may take in one step of any kind."""
        return max(
            int(block_bytes(kind.most[place == NO_PLACE]).sum())
            for kind, (place, _) in zip(self.problem.kinds, self.places, strict=True)
        )

    def core_book(self) -> CoreBook:
        """Return the book in the form that the allocator of the core adopts."""
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


def plan_book(
    kinds: Sequence[StepKind],
    planner: ChosenPlanner,
    budget: Budget,
    least_peak: int,
    guests: NDArray[np.int64] = NO_GUESTS,
) -> Book:
    """Plan kinds of step around guests; raise ``GaplessError`` if there is no valid plan.

    If the planner does not support guests, which are pins of the problem, it plans without them.
    """
    problem = book_problem(kinds, least_peak, guests)
    result = run(problem.problem, planner, budget, bounds_of(problem.problem))
    if result.status is Status.UNSUPPORTED and len(guests):
        return plan_book(kinds, planner, budget, least_peak)
    if result.interrupted:
        # At Ctrl-C a planner may return its best plan instead of raising. Ctrl-C is meant for the
        # whole program, so it is raised again.
        raise KeyboardInterrupt
    if result.plan is None or not result.valid:
        raise GaplessError(f"planner {planner.label}: {result.status.value}, {result.reason}")
    return Book(problem, result)
