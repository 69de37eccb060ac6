"""CP-SAT: offsets are integer variables, unsafe pairs no-overlaps of rectangles or intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import numpy as np

from planners.exact.common_unit import ScaledBlocks, scale_blocks
from planners.exact.cp_sat.cost_question import CostQuestion
from planners.exact.cp_sat.offset_model import (
    TIE_ORDERS,
    TieOrder,
    build_model,
    require_room_for_pairs,
)
from planners.exact.cp_sat.solver import Solved, interleaves, read_solved, solve
from planners.exact.model_limits import (
    RESERVE_SECONDS,
    require_time,
    solver_seconds,
)
from planners.exact.plan_exactly import SearchOutcome, WarmStart, plan_exactly, require_package
from planners.greedy.reuse_start import MOST_BLOCKS
from planners.model.budget import Budget
from planners.model.columns import IntColumn
from planners.model.findings import Findings
from planners.model.problem import Problem
from planners.processes.isolated_process import AnsweredInterrupt, Ended
from planners.registry import register

NAME = "cp-sat"

# The budget of a question in the first turn, in CP-SAT's deterministic time; 0.25 are some seconds.
# With a tie order, a question also has at most FIRST_CONFLICTS conflicts. Both grow by GROWTH each
# turn.
FIRST_CONFLICTS = 128
FIRST_DETERMINISTIC_TIME = 0.25
GROWTH = 4
# Turns in which the budget grows. The limit is never reached in practice; it keeps budgets within
# CP-SAT's 64 bits.
MOST_GROWTHS = 20
# CP-SAT checks its clocks only between steps. A question that takes this many times its time is
# ended. The shares limit the time of one question, as a part of the time left. Guesses.
PATIENCE = 2
SHARE_OF_AN_ORDER = 0.2
SHARE_WITHOUT_ORDER = 0.5
# A descent aims between the best peak and the bound: below the best peak by 1/2, 1/4, 1/8 or 1/16
# of the distance. The orders use these HALVINGS shares in turn. A guess.
HALVINGS = 4

SPENT = "the budget was spent before the proof"


def _load_cp_model() -> Any:
    from ortools.sat.python import cp_model

    return cp_model


@register(
    NAME,
    summary="CP-SAT: no-overlap of rectangles, or of cliques of unsafe tensors; proves its optimum",
    source="OR-Tools CP-SAT; greedy start",
    prepare=_load_cp_model,
    memories=True,
)
def cp_sat(problem: Problem, budget: Budget) -> Findings:
    """Search with OR-Tools' CP-SAT, between the best bound and the best greedy plan.

    With memories or prices at a capacity, one question asks for the least cost of what fits. A node
    limit counts conflicts. With it several threads take turns, so that the run repeats.

    Note: two kinds of questions. With its own strategies CP-SAT does not close tight packings of
    150 tensors in an hour. With a fixed branching rule some hundred conflicts suffice, if the order
    of blocks suits the problem: the next block is the one that can lie lowest, and ties go to the
    first in one of the orders of `branch-and-bound`. So each order gets a few conflicts at a fixed
    peak, which prunes far more than a variable peak. The first peak is the bound or the capacity;
    later peaks lie between it and the best plan. Between these questions CP-SAT gets questions
    without an order, for its own strategies. Each turn is longer than the one before.
    """
    require_package("ortools.sat.python", "OR-Tools", "pip install ortools")
    found = Findings()
    if not problem.memories:
        found = plan_exactly(problem, budget, NAME, lambda start: _search(problem, budget, start))
        refuted = found.lower_bound > (problem.capacity or 0)
        if not problem.cost_decides or refuted or found.interrupted:
            return found
    if problem.blocks.count > MOST_BLOCKS:
        return replace(found, reason=f"more than {MOST_BLOCKS} blocks: no search for a lower cost")
    return CostQuestion(problem, budget, NAME, found).findings(_load_cp_model())


def _search(problem: Problem, budget: Budget, start: WarmStart) -> SearchOutcome:
    require_room_for_pairs(problem)  # fails sooner than an import
    cp_model = _load_cp_model()
    return _Search(cp_model, problem, start, budget).outcome()


@dataclass(frozen=True)
class _Question:
    # The least and the most that the peak may be, in units.
    peaks: tuple[int, int]
    decide: bool = True
    # The fixed branching order; None if CP-SAT uses its own strategies.
    tie_order: TieOrder | None = None


@dataclass
class _Search:
    cp_model: Any
    problem: Problem
    start: WarmStart
    budget: Budget
    conflicts: int = 0
    branches: int = 0
    questions: int = 0
    order: str = ""
    interrupted: bool = False
    reason: str = SPENT
    scaled: ScaledBlocks = field(init=False)
    # In units: no plan is below ``least``, and one has ``most``, with these offsets.
    least: int = field(init=False)
    most: int = field(init=False)
    heads: IntColumn = field(init=False)

    def outcome(self) -> SearchOutcome:
        self.scaled = scale_blocks(self.problem)
        self.least = self.scaled.up(self.start.bound.bytes)
        self.heads = self.scaled.heads(self.problem, self.start.plan)
        self.most = self._peak(self.heads)
        try:
            for turn in count():
                self._take_turn(turn)
                if self._over:
                    break
        except TimeoutError:
            if not self.questions:
                raise
        except KeyboardInterrupt:
            self.interrupted = True
        return SearchOutcome(
            self.scaled.plan(self.problem, self.heads),
            lower_bound=self.least * self.scaled.unit,
            reason="" if self._over else "interrupted" if self.interrupted else self.reason,
            statistics={
                "branches": self.branches,
                "conflicts": self.conflicts,
                "questions": self.questions,
                "order": self.order,
            },
            interrupted=self.interrupted,
        )

    @property
    def _capacity(self) -> int | None:
        capacity = self.problem.capacity
        return None if capacity is None else self.scaled.down(capacity)

    @property
    def _over(self) -> bool:
        capacity = self._capacity
        if capacity is None:
            return self.most <= self.least
        return self.most <= capacity or self.least > capacity

    @property
    def _goal(self) -> int:
        capacity = self._capacity
        return self.least if capacity is None else capacity

    def _take_turn(self, turn: int) -> None:
        for index, order in enumerate(TIE_ORDERS):
            self._ask(_Question((self._goal, self._goal), tie_order=order), turn)
            if self._capacity is None:
                self._descend(order, 1 + index % HALVINGS, turn)
        self._ask(_Question((min(self.least, self._goal), self._goal)), turn)
        if self._capacity is None:
            self._ask(_Question((self.least, self.most), decide=False), turn)
            return
        for index, order in enumerate(TIE_ORDERS):
            self._descend(order, 1 + index % HALVINGS, turn)

    def _descend(self, order: TieOrder, halvings: int, turn: int) -> None:
        """Ask at peaks between the best plan and the bound, while answers move one of the two."""
        ends = None
        while not self._over and ends != (self.least, self.most):
            ends = self.least, self.most
            above = self.most if self._capacity is None else min(self.most, self._capacity + 1)
            peak = above - max(1, (above - self.least) >> halvings)
            if peak in (self.least - 1, self._goal):
                return  # was asked before
            self._ask(_Question((peak, peak), tie_order=order), turn)

    def _ask(self, question: _Question, turn: int) -> None:
        if self._over:
            return
        model = build_model(
            self.cp_model.CpModel(),
            self.problem,
            self.scaled,
            self.heads,
            question.peaks,
            self.budget,
            decide=question.decide,
            tie_order=question.tie_order,
        )
        solver = self.cp_model.CpSolver()
        seconds = self._share_of_time(question)
        self._set_parameters(solver.parameters, question, turn, seconds)
        self.questions += 1
        try:
            answer = solve(
                self.cp_model,
                solver,
                model,
                lambda heads: self._keep(heads, question),
                min(self.budget.remaining_seconds(), PATIENCE * seconds),
            )
        except AnsweredInterrupt as interrupt:
            self._read(read_solved(self.cp_model, model, interrupt.answer), question)
            raise
        if isinstance(answer, Ended):
            self.reason = f"CP-SAT {answer.how}"
            if answer.late:
                return  # the next question may be easier
            raise TimeoutError(self.reason)
        self.reason = SPENT
        self._read(answer, question)

    def _share_of_time(self, question: _Question) -> float:
        require_time(self.budget)
        if self.questions and self.budget.remaining_seconds() < RESERVE_SECONDS:
            raise TimeoutError("the time limit leaves no room for another question")
        share = SHARE_WITHOUT_ORDER if question.tie_order is None else SHARE_OF_AN_ORDER
        return share * solver_seconds(self.budget)

    def _set_parameters(
        self, parameters: Any, question: _Question, turn: int, seconds: float
    ) -> None:
        budget = self.budget
        led = question.tie_order is None
        growth = GROWTH ** min(turn, MOST_GROWTHS)
        if math.isfinite(seconds):
            parameters.max_time_in_seconds = seconds
        parameters.max_deterministic_time = FIRST_DETERMINISTIC_TIME * growth
        if not led:
            parameters.max_number_of_conflicts = FIRST_CONFLICTS * growth
            parameters.search_branching = self.cp_model.FIXED_SEARCH
            # Presolve would turn the rectangles into rows.
            parameters.cp_model_presolve = False
        if budget.node_limit is not None:
            left = budget.node_limit - self.conflicts
            if left <= 0:
                # With interleaved workers and no conflict to spend, CP-SAT would never end.
                raise TimeoutError("the node limit is spent")
            most = math.ceil(SHARE_WITHOUT_ORDER * left) if led else FIRST_CONFLICTS * growth
            parameters.max_number_of_conflicts = min(left, most)
        parameters.num_workers = budget.threads if led else 1
        parameters.random_seed = budget.seed
        parameters.interleave_search = led and interleaves(budget)

    def _peak(self, heads: IntColumn) -> int:
        return int((heads + self.scaled.size).max(initial=0))

    def _keep(self, heads: list[int], question: _Question) -> None:
        found = np.array(heads, dtype=np.int64)
        if self._peak(found) < self.most:
            self.heads, self.most = found, self._peak(found)
            self.order = ", ".join(question.tie_order or ())
            self.start.offer(self.scaled.plan(self.problem, found))

    def _read(self, solved: Solved, question: _Question) -> None:
        cp_model = self.cp_model
        self.conflicts += solved.conflicts
        self.branches += solved.branches
        if solved.status == cp_model.INFEASIBLE:
            self.least = max(self.least, question.peaks[1] + 1)
        elif not question.decide and solved.status == cp_model.OPTIMAL:
            self.least = self.most
        elif not question.decide and 0 <= solved.bound < 1 << 53:
            # The bound is a double, exact below 2**53; above that it may have been rounded up.
            self.least = max(self.least, math.floor(solved.bound))
