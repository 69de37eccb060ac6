"""CP-SAT: offsets as integer variables, unsafe pairs as rectangles or rows that do not overlap."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from typing import Any

from planners.exact.common_unit import ScaledBlocks, scale_blocks
from planners.exact.cp_sat.offset_model import OffsetModel, build_model, require_room_for_pairs
from planners.exact.interruptible import run_interruptibly
from planners.exact.model_limits import require_time, solver_seconds
from planners.exact.plan_exactly import plan_exactly
from planners.exact.search_outcome import SearchOutcome
from planners.exact.solver_package import load_in_time, require_package
from planners.exact.warm_start import WarmStart
from planners.model.budget import Budget
from planners.model.findings import Findings
from planners.model.plan import Plan
from planners.model.problem import Problem
from planners.registry import register
from planners.third_party.isolated_process import Ended, call_isolated

NAME = "cp-sat"

# The first question, whether a plan meets the bound, gets this share of what there is to spend,
# and at most this much of CP-SAT's own, deterministic, clock: about two minutes of one thread.
FIRST_SHARE = 0.5
FIRST_DETERMINISTIC_TIME = 60.0

# More than an offset takes as text; and room for what is no offset.
MOST_BYTES_A_HEAD = 1000

# How long CP-SAT gets after Ctrl-C to hand over its best plan.
GRACE_SECONDS = 10.0


@register(
    NAME,
    summary="CP-SAT: no-overlap of rectangles, or of cliques of unsafe tensors; proves its optimum",
    source="OR-Tools CP-SAT; greedy start",
)
def cp_sat(problem: Problem, budget: Budget) -> Findings:
    """Search with OR-Tools' CP-SAT, between the best bound and the best greedy plan.

    Note: two questions. Most best plans meet the bound, and a peak that is fixed there prunes far
    more than one that may still move. So the first question is whether a plan meets the bound,
    and the second, with what is left of the budget, which plan is best. With a capacity there is
    one question, whether a plan fits.

    Parameters
    ----------
    budget
        All of it; ``node_limit`` counts conflicts, and with it several threads take turns, so
        that the run repeats exactly.

    Returns
    -------
    Findings
        ``statistics``: ``branches`` and ``conflicts``.

    Raises
    ------
    MissingDependencyError
        OR-Tools is not installed.
    """
    return plan_exactly(
        problem,
        budget,
        NAME,
        lambda start: _search(problem, budget, start),
        require=lambda: require_package("ortools.sat.python", "OR-Tools", "pip install ortools"),
    )


def _search(problem: Problem, budget: Budget, start: WarmStart) -> SearchOutcome:
    require_room_for_pairs(problem)  # sooner than an import
    cp_model = load_in_time(_load_cp_model, "OR-Tools", budget)
    return _Search(cp_model, problem, start, budget).outcome()


def _load_cp_model() -> Any:
    from ortools.sat.python import cp_model

    return cp_model


@dataclass(frozen=True)
class _Answer:
    plan: Plan | None = None
    infeasible: bool = False
    bound: int = 0


@dataclass(frozen=True)
class _Solved:
    """What CP-SAT did, as it comes from its process."""

    status: int
    conflicts: int
    branches: int
    bound: float
    heads: list[int] | None
    interrupted: bool


def _solve(cp_model: Any, solver: Any, model: OffsetModel) -> bytes:
    status, interrupted = run_interruptibly(
        lambda: solver.solve(model.model), solver.stop_search, GRACE_SECONDS
    )
    if status is None:
        raise KeyboardInterrupt
    heads = None
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        heads = [x if isinstance(x, int) else solver.value(x) for x in model.head]
    solved = _Solved(
        int(status), solver.num_conflicts, solver.num_branches, solver.best_objective_bound,
        heads, interrupted,
    )  # fmt: skip
    return json.dumps(asdict(solved)).encode()


@dataclass
class _Search:
    cp_model: Any
    problem: Problem
    start: WarmStart
    budget: Budget
    conflicts: int = 0
    branches: int = 0
    interrupted: bool = False
    reason: str = "the budget was spent before the proof"
    scaled: ScaledBlocks = field(init=False)

    def outcome(self) -> SearchOutcome:
        self.scaled = scale_blocks(self.problem)
        least = self.scaled.up(self.start.bound.bytes)
        capacity = self.problem.capacity
        if capacity is not None:
            most = self.scaled.down(capacity)
            answer = self._ask((min(least, most), most), decide=True, share=1.0)
            return self._outcome(answer, least)
        answer = self._ask((least, least), decide=True, share=FIRST_SHARE)
        least += answer.infeasible
        incumbent = self.scaled.up(self.start.plan.peak)
        if answer.plan is not None or self.interrupted or least == incumbent:
            return self._outcome(_Answer(answer.plan), least)
        try:
            answer = self._ask((least, incumbent), decide=False, share=1.0)
        except TimeoutError:
            answer = _Answer()
        return self._outcome(answer, max(least, answer.bound))

    def _outcome(self, answer: _Answer, least: int) -> SearchOutcome:
        """Answer with what was found, and with the bound in units that was proven."""
        return SearchOutcome(
            answer.plan,
            exhausted=answer.infeasible,
            lower_bound=least * self.scaled.unit,
            reason="interrupted" if self.interrupted else self.reason,
            statistics={"branches": self.branches, "conflicts": self.conflicts},
            interrupted=self.interrupted,
        )

    def _ask(self, peaks: tuple[int, int], *, decide: bool, share: float) -> _Answer:
        model = build_model(
            self.cp_model.CpModel(),
            self.problem,
            self.scaled,
            self.scaled.heads(self.problem, self.start.plan),
            peaks,
            self.budget,
            decide=decide,
        )
        solver = self.cp_model.CpSolver()
        self._set_parameters(solver.parameters, share)
        # A process can be ended, also in the middle of a long presolve; a thread could not.
        try:
            answer = call_isolated(
                lambda: _solve(self.cp_model, solver, model),
                seconds=self.budget.remaining_seconds(),
                most_bytes=MOST_BYTES_A_HEAD * (1 + self.scaled.count),
                interrupt_grace_seconds=GRACE_SECONDS,
            )
        except KeyboardInterrupt:
            self.interrupted = True
            return _Answer()
        if isinstance(answer, Ended):
            self.reason = f"CP-SAT {answer.how}"
            return _Answer()
        return self._read(_Solved(**json.loads(answer)), model, decide)

    def _set_parameters(self, parameters: Any, share: float) -> None:
        budget = self.budget
        require_time(budget)
        if math.isfinite(budget.remaining_seconds()):
            parameters.max_time_in_seconds = share * solver_seconds(budget)
        if share < 1:
            parameters.max_deterministic_time = FIRST_DETERMINISTIC_TIME
        if budget.node_limit is not None:
            left = budget.node_limit - self.conflicts
            if left <= 0:
                # Taking turns without a conflict to spend, CP-SAT would never end.
                raise TimeoutError("the node limit is spent")
            parameters.max_number_of_conflicts = math.ceil(share * left)
        parameters.num_workers = budget.threads
        parameters.random_seed = budget.seed
        # One thread alone would follow one strategy; taking turns, it follows the whole portfolio.
        parameters.interleave_search = budget.threads == 1 or budget.node_limit is not None
        # Ctrl-C comes through Python; CP-SAT's own handler would leave none behind.
        parameters.catch_sigint_signal = False

    def _read(self, solved: _Solved, model: OffsetModel, decide: bool) -> _Answer:
        cp_model = self.cp_model
        self.interrupted |= solved.interrupted
        if solved.status == cp_model.MODEL_INVALID:
            raise ValueError(f"CP-SAT rejects the model: {model.model.validate()}")
        self.conflicts += solved.conflicts
        self.branches += solved.branches
        if solved.status == cp_model.INFEASIBLE:
            return _Answer(infeasible=True)
        plan = None if solved.heads is None else self.scaled.plan(self.problem, solved.heads)
        if decide:
            return _Answer(plan)
        if solved.status == cp_model.OPTIMAL and plan is not None:
            return _Answer(plan, bound=plan.peak // self.scaled.unit)
        # The bound comes as a double, exact up to 2**53; above that it may have been rounded up.
        bound = solved.bound
        return _Answer(plan, bound=math.floor(bound) if 0 <= bound < 1 << 53 else 0)
