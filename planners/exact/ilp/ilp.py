"""Big-M integer programs, solved by HiGHS and by CBC: references for small problems."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from planners.exact.common_unit import ScaledBlocks, scale_blocks
from planners.exact.ilp.big_m import BigM
from planners.exact.ilp.cbc import load_cbc, require_cbc
from planners.exact.ilp.highs import Solver, load_highs, require_highs
from planners.exact.ilp.linear_program import MilpAnswer
from planners.exact.plan_exactly import SearchOutcome, WarmStart, plan_exactly
from planners.model.budget import Budget
from planners.model.findings import Findings
from planners.model.problem import Problem
from planners.registry import register

# The relative tolerance within which both solvers accept a row, and a number as an integer.
TOLERANCE = 1e-6
# CBC's log prints six digits of an objective.
LOG_TOLERANCE = 1e-5


def _register(
    name: str, solver: str, require: Callable[[], None], load: Callable[[], Solver], source: str
) -> None:
    @register(
        name,
        summary=f"Big-M integer program, solved by {solver}; a reference for n <= 20 or so",
        source=source,
        prepare=load,
    )
    def plan(problem: Problem, budget: Budget) -> Findings:
        return plan_exactly(
            problem,
            budget,
            name,
            lambda start: _search(problem, budget, start, load),
            require=require,
        )


def _search(
    problem: Problem, budget: Budget, start: WarmStart, load: Callable[[], Solver]
) -> SearchOutcome:
    """Look for a plan that beats the incumbent, or, with a capacity, for one that fits.

    Note: two questions. Most best plans meet the bound, and a program with a fixed peak is tighter
    than one with a variable peak. So without a capacity the first question is whether a plan meets
    the bound. It gets half of the budget.
    """
    scaled = scale_blocks(problem)
    least = scaled.up(start.bound.bytes)
    if problem.capacity is not None:
        most = scaled.down(problem.capacity)
        return _ask(problem, budget, start, (least, most), load, decide=True)
    most = scaled.down(start.plan.peak - 1)
    nodes = 0
    if least < most:
        first = _ask(problem, _half(budget), start, (least, least), load, decide=True)
        if first.plan is not None or first.interrupted:
            return replace(first, exhausted=False)
        least += first.exhausted
        nodes = int(first.statistics.get("nodes", 0))
        if budget.node_limit is not None:
            budget = replace(budget, node_limit=max(0, budget.node_limit - nodes))
    try:
        second = _ask(problem, budget, start, (least, most), load, decide=False)
    except TimeoutError:
        second = SearchOutcome(reason="the budget was spent before the proof")
    return replace(
        second,
        lower_bound=max(second.lower_bound, least * scaled.unit),
        statistics={"nodes": nodes + int(second.statistics.get("nodes", 0))},
    )


def _half(budget: Budget) -> Budget:
    left, limit = budget.remaining_seconds(), budget.node_limit
    return replace(
        budget,
        deadline=budget.deadline - left / 2 if math.isfinite(left) else math.inf,
        node_limit=None if limit is None else -(-limit // 2),
    )


def _ask(
    problem: Problem,
    budget: Budget,
    start: WarmStart,
    peaks: tuple[int, int],
    load: Callable[[], Solver],
    *,
    decide: bool,
) -> SearchOutcome:
    """Ask for a plan with a peak between two numbers of units, or for the best such plan."""
    scaled = scale_blocks(problem)
    program = BigM(problem, scaled, *peaks, decide=decide, budget=budget)
    if program.contradiction:
        return SearchOutcome(exhausted=True)
    answer = load()(program.milp, budget)
    outcome = _outcome(program, scaled, peaks[1], answer)
    if outcome.plan is not None and not decide:
        for when, objective in answer.incumbents:
            start.tell(when, max(outcome.plan.peak, _whole(objective) * scaled.unit))
    return outcome


def _whole(objective: float) -> int:
    """Return units that are at least an objective of which the log prints the first digits."""
    exact = objective < 1 / LOG_TOLERANCE
    return math.ceil(objective if exact else objective * (1 + LOG_TOLERANCE))


def _outcome(program: BigM, scaled: ScaledBlocks, most: int, answer: MilpAnswer) -> SearchOutcome:
    """Return the plan and the proofs of a floating-point answer that hold in integers.

    Note: rounding. The plan is recomputed from the ordering binaries, so it is exact
    whatever the solver's tolerances are. A solution that only tolerances allow makes the solver's
    bound too low, which is harmless. The remaining error is rounding in the solver's linear
    algebra, assumed to be below ``TOLERANCE`` of the largest number. If that is less than half a
    unit, a bound may be rounded up to the next integer, and "infeasible" is a proof. Otherwise it
    is not.
    """
    margin = TOLERANCE * max(1, most)
    plan = None if answer.values is None else program.plan(answer.values)
    safe = margin < 0.5
    reason = answer.reason
    bound = 0
    if answer.infeasible and not safe:
        reason = (
            f"the solver claims that nothing is better, but {most} units are too many for its "
            f"tolerance of {TOLERANCE}"
        )
    elif math.isfinite(answer.bound):
        # The program only searched below the incumbent, so it proves nothing above that.
        bound = min(math.ceil(answer.bound - margin), most + 1) * scaled.unit
        if plan is not None and not reason and bound < plan.peak:
            reason = f"the solver's bound is no proof within its tolerance of {TOLERANCE}"
    return SearchOutcome(
        plan, answer.infeasible and safe, max(0, bound), reason, answer.statistics,
        answer.interrupted,
    )  # fmt: skip


_register(
    "ilp-highs",
    "HiGHS",
    require_highs,
    load_highs,
    "SciPy's milp; big-M with ordering binaries, clique rows and tight M",
)
_register(
    "ilp-cbc",
    "CBC",
    require_cbc,
    load_cbc,
    "PuLP's CBC; big-M with ordering binaries, clique rows and tight M",
)
