"""The planner ``homosize``: the paper's plan synthesizer, and what closes the gaps it leaves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Literal

from planners.greedy.incumbent import Incumbent, answer_with_best
from planners.greedy.portfolio import Portfolio
from planners.greedy.pressure import PressureOrders
from planners.homosize.dynamic_placement import place_dynamic
from planners.homosize.paper_variant import PaperVariant
from planners.homosize.requests import require_plain_lifetimes, static_requests
from planners.homosize.structured_orders import address_order, structured_orders
from planners.homosize.synthesis import Synthesis, synthesize
from planners.model.budget import Budget
from planners.model.columns import IntColumn
from planners.model.plan import Plan, Result, feasible
from planners.model.problem import Problem, Safety, Scalar
from planners.registry import UnsupportedProblemError, register

NAME = "homosize"

# Without any limit `best` ends after this many attempts times blocks, and has had this many
# attempts at least: half of them ask for a proof alone, and the other half has room for the
# published planner and every greedy one.
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
) -> Result:
    """Plan by computation phases and sizes.

    Parameters
    ----------
    problem
        With lifetimes, given or from its graph. The variant ``paper`` takes plain lifetimes, with
        alignment, and nothing else.
    budget
        The best plan so far is the answer when the time is over or Ctrl-C comes; ``node_limit``
        counts attempts.
    variant
        ``paper``: the published plan synthesizer. ``best``: never worse than that, nor than any
        greedy planner, as far as the budget goes.
    phases
        Whether requests are grouped by phases; without, layers alone.
    fusion
        Whether adjacent groups are fused.
    leftover, acceptance, least_product, layers_too
        As in :class:`PaperVariant`: where the paper's public code differs.

    Returns
    -------
    Result
        ``statistics``: of ``paper`` the counts of every stage; of ``best``: ``attempts``,
        ``order`` of the best plan, and ``interrupted`` after Ctrl-C.

    Raises
    ------
    UnsupportedProblemError
        Nothing is known of lifetimes, or the variant does not handle a feature.
    TimeoutError, KeyboardInterrupt
        Before the first plan was complete.
    """
    choices = PaperVariant(
        phases=phases, fusion=fusion, leftover=leftover, acceptance=acceptance,
        least_product=least_product, layers_too=layers_too,
    )  # fmt: skip
    if variant == "paper":
        plan, synthesis = plan_as_published(problem, choices, budget)
        return replace(feasible(plan), statistics=_counts(synthesis))
    if problem.safety is Safety.PAIRS:
        raise UnsupportedProblemError("explicit pairs: phases and layers are made of lifetimes")
    return _plan_best(problem, choices, budget)


def plan_as_published(
    problem: Problem, choices: PaperVariant, budget: Budget
) -> tuple[Plan, Synthesis]:
    """Plan the static requests as the paper does, and the dynamic ones around them."""
    require_plain_lifetimes(problem)
    synthesis = synthesize(static_requests(problem), choices, budget)
    offsets = synthesis.plan.offsets(problem.tensor_count)
    return place_dynamic(problem, offsets, budget), synthesis


def _plan_best(problem: Problem, choices: PaperVariant, budget: Budget) -> Result:
    attempts = Incumbent(problem, _with_node_limit(problem, budget))
    return answer_with_best(attempts, partial(_attempt_all, choices=choices))


def _with_node_limit(problem: Problem, budget: Budget) -> Budget:
    """Return the budget with a limit on attempts where the user set none at all."""
    if budget.node_limit is not None or budget.time_limit_seconds is not None:
        return budget
    limit = max(LEAST_ATTEMPTS, DEFAULT_EFFORT // max(1, problem.blocks.count))
    return replace(budget, node_limit=limit)


def _attempt_all(attempts: Incumbent, choices: PaperVariant) -> None:
    """Improve the best plan until it meets the bound or the attempts are over.

    Note: why two rounds. An attempt that asks for no less than the bound ends at the first request
    in the way, and most problems have an order that meets it. So the first round asks for the
    proof, and only the second for anything better than the best plan: the published one, those of
    all greedy planners, and the orders of the first round again, to their ends.
    """
    if not attempts.bounds_are_known:
        # The witness of the best bound makes better orders, but a plan comes before it.
        name, order = next(structured_orders(attempts.problem, attempts.bound))
        attempts.place(order, name)
        attempts.ask_for_bounds()
    given_up = list[tuple[str, IntColumn]]()
    for name, order in structured_orders(attempts.problem, attempts.bound):
        only_goal = attempts.best is not None
        attempts.place(order, name, only_goal=only_goal)
        if only_goal:
            given_up.append((name, order))
        if attempts.over:
            return
        attempts.require_time()
    pressure = PressureOrders(attempts.problem, attempts.bound)
    seconds, left = _share_kept(attempts)
    with attempts.leaving(seconds, left):
        pressure.run(attempts, only_goal=True)
    if attempts.over:
        return
    _offer_published(attempts, choices)
    for name, order in given_up:
        if not attempts.over:
            attempts.place(order, name)
    Portfolio(attempts.problem).run(attempts)
    pressure.run(attempts, only_goal=False)


def _share_kept(attempts: Incumbent) -> tuple[float, int]:
    """Return the seconds and attempts that the search for a proof leaves to what follows it."""
    budget, kept = attempts.budget, 1 - SHARE_FOR_A_PROOF
    limit = budget.node_limit
    return (
        0.0 if budget.time_limit_seconds is None else kept * budget.remaining_seconds(),
        0 if limit is None else math.ceil(kept * (limit - attempts.count)),
    )


def _offer_published(attempts: Incumbent, choices: PaperVariant) -> None:
    """Try the published plan, with groups and with layers alone, each with every tensor sunk."""
    problem = attempts.problem
    readings = {
        "published": choices,
        "published, no fusion": replace(choices, fusion=False),
        "published, no phases": replace(choices, phases=False),
    }
    for name, reading in readings.items():
        if attempts.over:
            return
        attempts.require_time()
        try:
            plan, _ = plan_as_published(problem, reading, attempts.budget)
        except UnsupportedProblemError:
            return
        attempts.place(address_order(problem, plan.offsets), name)


def _counts(synthesis: Synthesis) -> Mapping[str, Scalar]:
    return {
        "groups": len(synthesis.groups),
        "fusions": synthesis.fusion_count,
        "layers": len(synthesis.plan.layer_size),
        "inserted": len(synthesis.plan.inserted),
    }
