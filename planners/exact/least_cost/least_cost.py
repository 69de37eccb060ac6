"""Proves what a plan within the capacity costs at least, until a plan costs no more.

Note [Implicit hitting sets]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~
After Davies and Bacchus 2011. Rows of bytes and cores hold for every plan; so the least cost
of pairs that fill all rows is a bound. First only the relaxation is solved, to which broken rows of
bytes are added until there are none. Then whole pairs are chosen. The rest is kept apart: if a plan
within the capacity does so, it costs no more than the bound. Otherwise some of the pairs that are
kept apart are a core, which is made small, because it then demands more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from planners.exact.least_cost.cost_rows import CostRow, PricedPairs
from planners.exact.least_cost.packing import matrix_of, pack
from planners.exact.model_limits import ModelTooLargeError
from planners.model.budget import Budget
from planners.model.columns import IntColumn
from planners.model.findings import Findings
from planners.model.plan import Plan
from planners.model.problem import Problem

Decide = Callable[[Problem, Budget], Findings]
"""Looks for a plan within a capacity, or for a proof that there is none."""

# Names of proofs: exact weights of rows, and the search, which trusts the solver's bounds.
PACKING, SEARCH = "packing", "branch-and-bound"
# The rows of a round; rows that demand nothing of the relaxation leave after some rounds, if there
# are more than MOST_ROWS. Guesses.
ROWS_A_ROUND = 100
MOST_ROWS = 400
# The rounds end if the last STALE of them have raised the cost by less than this share. A guess.
STALE = 8
LEAST_RISE = 0.002
# The nodes of a question whether some pairs can be kept apart, and of one that makes a core
# smaller: what it does not answer stays in the core. Guesses.
NODES = 200_000
NODES_TO_SHRINK = 2_000
# A node limit counts attempts of a local search, which take as long as one node of the solver. A
# guess.
ATTEMPTS_A_NODE = 1_000
# SciPy's status codes for a solved program, and for one that ran out of time or nodes.
SOLVED, LIMIT = 0, 1
# How far the solver's bound may lie from a whole cost for want of digits.
ROUNDING = 1e-5


class LeastCost:
    """The proof for one problem, which goes on where it ended when it runs again."""

    def __init__(self, problem: Problem, decide: Decide) -> None:
        self.problem = problem
        self.cost, self.certificate = 0, ""
        self.rows: list[CostRow] = []
        self.cores = 0
        self._decide = decide
        self._chosen = np.zeros(len(problem.reuse_prices))
        self._is_packed = False
        # The cost of the relaxation after each round.
        self._costs: list[float] = []

    @cached_property
    def pairs(self) -> PricedPairs:
        return PricedPairs(self.problem)

    def findings(self, budget: Budget, found: Findings) -> Findings:
        """Return findings with the proof, after it has gone on until the budget is spent."""
        assert found.plan is not None
        self.plan, reason, interrupted = found.plan, "", False
        try:
            self._prove(budget)
        except (TimeoutError, ModelTooLargeError) as error:
            reason = str(error)
        except KeyboardInterrupt:
            reason, interrupted = "interrupted", True
        counters = {"cost_rows": len(self.rows), "cores": self.cores}
        return replace(
            found, plan=self.plan, cost_bound=self.cost, cost_certificate=self.certificate,
            reason=reason, interrupted=interrupted, statistics={**found.statistics, **counters},
        )  # fmt: skip

    def _prove(self, budget: Budget) -> None:
        """Raise the bound until a plan meets it."""
        while self.cost < (cost := self.pairs.cost(self.plan)):
            if budget.remaining_seconds() == 0:
                raise TimeoutError("time limit")
            if not self._is_packed:
                self._pack(budget)
                continue
            is_least = self._choose(budget, cost)
            if self._add_broken_rows(budget) and is_least:
                continue
            if self.cost >= cost:
                return
            if not is_least:
                raise TimeoutError("the solver chose no pairs of least cost within its limits")
            kept = np.flatnonzero(self.pairs.can_pay & (self._chosen < 0.5))
            found = self._keep_apart(kept, budget, NODES)
            if found is None:
                raise TimeoutError("a question exceeds its nodes")
            if not self._fits(found.plan):
                self.cores += 1
                self.rows.append(self.pairs.core(self._shrunk(kept, budget)))
                limit = math.inf if budget.node_limit is None else budget.node_limit
                if self.cores * ATTEMPTS_A_NODE > limit:
                    raise TimeoutError("node limit")
            elif found.plan is not None:
                self.plan = found.plan

    def _raise(self, cost: int, certificate: str) -> None:
        """Keep a bound on the cost if it is better than the best so far."""
        if cost > self.cost:
            self.cost, self.certificate = cost, certificate

    def _pack(self, budget: Budget) -> None:
        """Add broken rows of bytes, and solve the relaxation."""
        last = self._costs[-STALE:]
        is_stale = len(last) == STALE and last[-1] - last[0] < LEAST_RISE * last[-1]
        if is_stale or not self._add_broken_rows(budget):
            self._is_packed = True
            return
        packing = pack(self.pairs, self.rows, {}, budget.remaining_seconds())
        self._chosen = packing.chosen
        self._costs.append(float(self.pairs.price @ self._chosen))
        self._raise(packing.cost, PACKING)
        if len(self.rows) > MOST_ROWS:
            self.rows = [row for row in self.rows if row.lack(self._chosen) > -0.05]

    def _add_broken_rows(self, budget: Budget) -> bool:
        broken = self.pairs.broken_rows(self._chosen, ROWS_A_ROUND, budget)
        self.rows += broken
        return bool(broken)

    def _choose(self, budget: Budget, most: int) -> bool:
        """Choose whole pairs that fill all rows; return True if no others cost less."""
        # Imported here, because SciPy takes long to import.
        from scipy import optimize

        if not self.rows:
            return True
        count = len(self.pairs.price)
        options: dict[str, float] = {"mip_rel_gap": 0}
        if math.isfinite(budget.remaining_seconds()):
            options["time_limit"] = budget.remaining_seconds()
        if budget.node_limit is not None:
            options["node_limit"] = budget.node_limit // ATTEMPTS_A_NODE
        solver: Any = optimize
        found = solver.milp(
            self.pairs.price.astype(np.float64),
            integrality=np.ones(count),
            bounds=solver.Bounds(0, self.pairs.can_pay.astype(np.float64)),
            constraints=solver.LinearConstraint(
                matrix_of(self.pairs, self.rows)[:, :count], 1, np.inf
            ),
            options=options,
        )
        if found.status not in (SOLVED, LIMIT) or found.mip_dual_bound is None:
            raise TimeoutError(f"the solver ended with status {found.status}")
        divisor = int(np.gcd.reduce(self.pairs.price))
        bound = math.ceil(found.mip_dual_bound / divisor - ROUNDING) * divisor
        self._raise(min(bound, most), SEARCH)
        if found.x is not None:
            self._chosen = np.round(found.x)
        return bool(found.status == SOLVED)

    def _fits(self, plan: Plan | None) -> bool:
        return plan is not None and plan.peak <= self.pairs.capacity

    def _keep_apart(self, kept: IntColumn, budget: Budget, nodes: int) -> Findings | None:
        """Return a plan with some pairs kept apart or a proof that none fits, or None."""
        apart = kept_apart(self.pairs, kept)
        if apart.core.conflicting_pins() is not None:
            return Findings(lower_bound=self.pairs.capacity + 1)
        found = self._decide(apart, replace(budget, node_limit=nodes))
        if found.interrupted:
            raise KeyboardInterrupt
        is_known = found.lower_bound > self.pairs.capacity or self._fits(found.plan)
        return found if is_known else None

    def _shrunk(self, kept: IntColumn, budget: Budget) -> IntColumn:
        """Return as few of the pairs as still cannot be kept apart, one share after the other."""
        share = max(1, len(kept) // 4)
        at = 0
        while True:
            if at >= len(kept):
                if share == 1:
                    return kept
                share, at = max(1, share // 2), 0
            fewer = np.delete(kept, slice(at, at + share))
            found = self._keep_apart(fewer, budget, NODES_TO_SHRINK)
            if found is not None and not self._fits(found.plan):
                kept = fewer
            else:
                at += share


def has_plan_that_fits(problem: Problem, found: Findings) -> bool:
    """Return True if findings have a plan within the capacity, and Ctrl-C did not end them."""
    fits = found.plan is not None and found.plan.peak <= (problem.capacity or 0)
    return fits and not found.interrupted


def with_least_cost_proven(
    problem: Problem, budget: Budget, found: Findings, decide: Decide
) -> Findings:
    """Return findings whose plan within the capacity costs least, or a bound on its cost."""
    if not has_plan_that_fits(problem, found):
        return found
    return LeastCost(problem, decide).findings(budget, found)


def kept_apart(pairs: PricedPairs, kept: IntColumn) -> Problem:
    """Return the problem without prices in which some priced pairs are unsafe too."""
    a, b, _ = pairs.problem.reuse_prices[kept].T
    unsafe = np.concatenate((pairs.unsafe, np.column_stack((a, b))))
    everything = range(pairs.problem.tensor_count)
    return pairs.problem.select(everything, unsafe_pairs=unsafe, reuse_prices=[])
