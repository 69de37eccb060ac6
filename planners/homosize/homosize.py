"""The planner ``homosize``: the paper's plan synthesizer, and searches that close its gaps."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Literal

import numpy as np

from planners.dynamic.static_part import is_dynamic
from planners.greedy.place import place, place_better
from planners.greedy.portfolio import Portfolio
from planners.greedy.pressure import PressureOrders
from planners.greedy.stages import ask_for_bounds_after_a_plan, plan_in_stages, with_node_limit
from planners.homosize.paper_variant import PaperVariant
from planners.homosize.requests import require_plain_lifetimes, static_requests
from planners.homosize.structured_orders import address_order, structured_orders
from planners.homosize.synthesis import Synthesis, synthesize
from planners.model.blocks import NOT_PINNED
from planners.model.budget import Budget
from planners.model.columns import IntColumn
from planners.model.findings import Findings
from planners.model.incumbent import Incumbent
from planners.model.plan import Plan
from planners.model.problem import Problem, Safety, Scalar
from planners.registry import UnsupportedProblemError, register

NAME = "homosize"

# Without any limit, `best` ends after this many attempts times blocks, but makes at least
# LEAST_ATTEMPTS attempts. SHARE_FOR_A_PROOF of them only ask for a proof; the rest has room for the
# published planner and every greedy one. Guesses.
DEFAULT_EFFORT = 6_000_000
LEAST_ATTEMPTS = 120
SHARE_FOR_A_PROOF = 0.5


@register(
    NAME,
    summary="HomoPhase groups and HomoSize layers; best: their order for single requests, and more",
    source="Huang et al. 2026, section 5.1",
)
def homosize(
    problem: Problem,
    budget: Budget,
    variant: Literal["best", "paper"] = "best",
    phases: bool = True,
    fusion: bool = True,
    leftover: Literal["top", "group"] = "top",
    acceptance: Literal["average", "product"] = "average",
    least_product: float = 0.0,
    layers_too: bool = False,
) -> Findings:
    """Plan by computation phases and sizes.

    ``paper`` is the published plan synthesizer, for plain lifetimes with alignment. ``best`` is
    never worse than ``paper`` or any greedy planner, as far as the budget goes; a node limit counts
    its attempts. The other parameters are those of :class:`PaperVariant`.
    """
    paper_variant = PaperVariant(
        phases=phases, fusion=fusion, leftover=leftover, acceptance=acceptance,
        least_product=least_product, layers_too=layers_too,
    )  # fmt: skip
    if variant == "paper":
        plan, synthesis = plan_as_published(problem, paper_variant, budget)
        return Findings(plan, statistics=_counts(synthesis))
    if problem.safety is Safety.PAIRS:
        raise UnsupportedProblemError("explicit pairs: phases and layers are made of lifetimes")
    return _plan_best(problem, paper_variant, budget)


def plan_as_published(
    problem: Problem, paper_variant: PaperVariant, budget: Budget
) -> tuple[Plan, Synthesis]:
    """Plan the static requests as the paper does, and the dynamic ones around them."""
    require_plain_lifetimes(problem)
    synthesis = synthesize(static_requests(problem), paper_variant, budget)
    offsets = synthesis.plan.offsets(problem.tensor_count)
    return place_dynamic(problem, offsets, budget), synthesis


def _plan_best(problem: Problem, paper_variant: PaperVariant, budget: Budget) -> Findings:
    """Improve the best plan until it meets the bound or the attempts are over.

    Note: why two rounds. An attempt that only accepts the bound ends at the first request that
    exceeds it, and most problems have an order that meets the bound. So the first round only asks
    for a proof. The second round asks for any better plan: the published plan, those of all greedy
    planners, and the orders of the first round again, placed to their ends.
    """
    budget = with_node_limit(problem, budget, DEFAULT_EFFORT, LEAST_ATTEMPTS)
    incumbent = Incumbent(problem, budget)
    orders = _Orders(incumbent)
    return plan_in_stages(
        incumbent,
        [
            lambda: ask_for_bounds_after_a_plan(incumbent, structured_orders),
            orders.prove,
            lambda: _offer_published(incumbent, paper_variant),
            orders.place_given_up,
            lambda: Portfolio(problem).run(incumbent),
            lambda: orders.pressure.run(incumbent, only_goal=False),
        ],
    )


class _Orders:
    """Structured orders, then pressure orders; keeps the orders that missed the goal."""

    def __init__(self, incumbent: Incumbent) -> None:
        self._incumbent = incumbent
        self._given_up: list[tuple[str, IntColumn]] = []

    @cached_property
    def pressure(self) -> PressureOrders:
        return PressureOrders(self._incumbent.problem, self._incumbent.bound)

    def prove(self) -> None:
        """Ask every order for the goal only; without a plan, place the first order fully."""
        incumbent = self._incumbent
        for name, order in structured_orders(incumbent.problem, incumbent.bound):
            only_goal = incumbent.best is not None
            place_better(incumbent, order, name, only_goal=only_goal)
            if only_goal:
                self._given_up.append((name, order))
            if incumbent.over:
                return
        with incumbent.leaving(*_share_kept(incumbent)):
            self.pressure.run(incumbent, only_goal=True)

    def place_given_up(self) -> None:
        """Place the structured orders to their ends."""
        for name, order in self._given_up:
            if not self._incumbent.over:
                place_better(self._incumbent, order, name)


def _share_kept(incumbent: Incumbent) -> tuple[float, int]:
    """Return the seconds and attempts that the search for a proof must leave."""
    budget, kept = incumbent.budget, 1 - SHARE_FOR_A_PROOF
    limit = budget.node_limit
    return (
        0.0 if budget.time_limit_seconds is None else kept * budget.remaining_seconds(),
        0 if limit is None else math.ceil(kept * (limit - incumbent.count)),
    )


def _offer_published(incumbent: Incumbent, paper_variant: PaperVariant) -> None:
    """Try the published plan, with groups and with layers alone, each with every tensor sunk."""
    problem = incumbent.problem
    readings = {
        "published": paper_variant,
        "published, no fusion": replace(paper_variant, fusion=False),
        "published, no phases": replace(paper_variant, phases=False),
    }
    for name, reading in readings.items():
        if incumbent.over:
            return
        try:
            plan, _ = plan_as_published(problem, reading, incumbent.budget)
        except UnsupportedProblemError:
            return
        place_better(incumbent, address_order(problem, plan.offsets), name)


def _counts(synthesis: Synthesis) -> Mapping[str, Scalar]:
    return {
        "groups": len(synthesis.groups),
        "fusions": synthesis.fusion_count,
        "layers": len(synthesis.plan.layer_size),
        "inserted": len(synthesis.plan.inserted),
    }


def place_dynamic(problem: Problem, static_offsets: IntColumn, budget: Budget) -> Plan:
    """Add the dynamic tensors to a plan of all other tensors.

    Each dynamic tensor, in the order of allocation, takes the smallest gap that is free throughout
    its recorded lifetime. Best fit at run time could do no better, since it does not know the
    frees.
    """
    dynamic = is_dynamic(problem)
    if not dynamic.any():
        return Plan.of(problem, static_offsets)
    around = problem.select(
        np.arange(problem.tensor_count),
        start=problem.start,
        end=problem.end,
        pinned=np.where(dynamic, NOT_PINNED, static_offsets),
    )
    return place(around, "source", "best", budget=budget)
