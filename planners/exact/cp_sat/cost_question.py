"""The least cost by CP-SAT: one question, which begins from a plan of a short local search."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from planners import _core
from planners.exact.cp_sat.cost_model import build_cost_model
from planners.exact.cp_sat.solver import Solved, interleaves, read_solved, solve
from planners.exact.model_limits import ModelTooLargeError, require_time, solver_seconds
from planners.greedy.reuse_start import reuse_search
from planners.model.budget import Budget
from planners.model.findings import Findings
from planners.model.places import block_ranges, least_place_costs
from planners.model.plan import Plan, Status
from planners.model.problem import Problem
from planners.processes.isolated_process import AnsweredInterrupt, Ended

# Attempts of the local search before CP-SAT. A guess.
START_ATTEMPTS = 10_000


class CostQuestion:
    """The plan of least cost, and what is proven about it."""

    def __init__(self, problem: Problem, budget: Budget, planner: str, start: Findings) -> None:
        self._problem, self._budget, self._planner, self._found = problem, budget, planner, start
        self._reason = "the budget was spent before the proof"
        self._ranges = block_ranges(problem)
        self._bound = sum(least_place_costs(self._ranges).values())
        self._certificate = "places" if self._bound else ""
        self._start = self._search(start.plan)
        # Bytes that are out, cost, and heads of the best plan.
        self._best = self._start.best()

    def findings(self, cp_model: Any) -> Findings:
        """Search and ask CP-SAT, and return what both found."""
        interrupted = False
        try:
            self._start.run(START_ATTEMPTS, self._bound, self._budget.remaining_seconds())
            self._keep(self._start)
            if not self._is_proven:
                self._ask(cp_model)
        except (TimeoutError, ModelTooLargeError) as error:
            self._reason = str(error)
        except KeyboardInterrupt:
            interrupted, self._reason = True, "interrupted"
        return replace(
            self._found,
            plan=None if self._best[0] else Plan.of_blocks(self._problem, self._best[2]),
            reason="" if self._is_proven else self._reason,
            interrupted=interrupted,
            cost_bound=self._bound,
            cost_certificate=self._certificate,
        )

    @property
    def _is_proven(self) -> bool:
        return self._best[:2] == (0, self._bound)

    def _search(self, plan: Plan | None) -> _core.ReuseSearch:
        return reuse_search(self._problem, self._ranges, plan, self._budget.seed)

    def _keep(self, search: _core.ReuseSearch) -> None:
        if search.best()[:2] < self._best[:2]:
            self._best = search.best()

    def _ask(self, cp_model: Any) -> None:
        budget, hint = self._budget, None if self._best[0] else self._best[2]
        require_time(budget)
        model, scaled = build_cost_model(cp_model, self._problem, self._ranges, hint, budget)
        solver, found = cp_model.CpSolver(), list[list[int]]()
        parameters, seconds = solver.parameters, solver_seconds(budget)
        if math.isfinite(seconds):
            parameters.max_time_in_seconds = seconds
        if budget.node_limit is not None:
            left = budget.node_limit - int(self._found.statistics.get("conflicts", 0))
            if left <= 0:
                # With interleaved workers and no conflict to spend, CP-SAT would never end.
                raise TimeoutError("the node limit is spent")
            parameters.max_number_of_conflicts = left
        parameters.num_workers, parameters.random_seed = budget.threads, budget.seed
        parameters.interleave_search = interleaves(budget)
        try:
            solved = solve(cp_model, solver, model, found.append, budget.remaining_seconds())
            if isinstance(solved, Ended):
                raise TimeoutError(f"CP-SAT {solved.how}")
            self._read(solved, cp_model)
        except AnsweredInterrupt as interrupt:
            self._read(read_solved(cp_model, model, interrupt.answer), cp_model)
            raise
        finally:
            if found:  # the last plan is the best
                self._keep(self._search(scaled.plan(self._problem, found[-1])))

    def _read(self, solved: Solved, cp_model: Any) -> None:
        counts = {"cost_branches": solved.branches, "cost_conflicts": solved.conflicts}
        self._found = replace(self._found, statistics={**self._found.statistics, **counts})
        if solved.status == cp_model.INFEASIBLE:
            self._reason = "CP-SAT proves that no plan fits"
            certificate, claimed = self._planner, Status.INFEASIBLE
            self._found = replace(self._found, certificate=certificate, claimed=claimed)
        # CP-SAT's bound is a whole number; as a double it may be off by a rounding.
        elif 0 <= solved.bound < 1 << 40 and round(solved.bound) > self._bound:
            self._bound, self._certificate = round(solved.bound), self._planner
