"""Proves a lower bound by decisions on pairs, in a form that a referee can check."""

from __future__ import annotations

from planners import _core
from planners.errors import GaplessError
from planners.exact.branch_and_bound.components import Component, components_of
from planners.exact.common_unit import scale_blocks
from planners.exact.model_limits import ModelTooLargeError, require_time
from planners.model.bounds import bounds_so_far
from planners.model.budget import Budget
from planners.model.certificate import LEAF, Certificate
from planners.model.plan import Plan
from planners.model.problem import Problem

# The nodes of each part in turn, so that a part with a short proof comes first. The
# referee takes milliseconds for a node, so that a longer proof is of little use. Guesses.
NODES_OF_TURNS = (1_000, 10_000, 100_000)


def certify(
    problem: Problem, least: int, proven_by: str, plan: Plan | None, budget: Budget
) -> Certificate:
    """Return a certificate of a lower bound in bytes; a bound without a witness is proven anew."""
    conflict = problem.core.conflicting_pins()
    if conflict is not None:
        return Certificate(None, [list(conflict)], [LEAF])
    best = plan if plan is not None and plan.peak == least else None
    for bound in bounds_so_far(problem):
        # No rule of the referee rounds the sizes of a clique, but decisions on its pairs do.
        if bound.bytes == least and bound.name != "aligned":
            # The referee looks at each block alone, so a block needs no clique.
            witness = bound.witness[problem.size[bound.witness] > 0].tolist()
            cliques = [witness] if witness and bound.name != "block" else []
            return Certificate(least, cliques, [LEAF], best)
    try:
        found = refute(problem, least, budget.started())
        why = f"they exceed {NODES_OF_TURNS[-1]:,} nodes"
    except (TimeoutError, ModelTooLargeError) as error:
        found, why = None, str(error)
    if found is None:
        raise GaplessError(
            f"decisions on pairs did not prove the {least} bytes of {proven_by}: {why}"
        )
    return Certificate(least, *found, best)


def refute(
    problem: Problem, least: int, budget: Budget
) -> tuple[list[list[int]], list[int]] | None:
    """Return the cliques and the tree by which no plan has a peak below so many bytes, or None."""
    scaled = scale_blocks(problem)
    capacity = scaled.down(least - 1)
    alone = int((scaled.lowest + scaled.size).max(initial=0))
    if alone > capacity:
        return [], [LEAF]
    parts = [
        (part, _core.DisjunctiveSearch(part.core, budget.remaining_seconds()))
        for part in components_of(problem, scaled, budget)
    ]
    for nodes in NODES_OF_TURNS:
        for part, search in list(parts):
            require_time(budget)
            decision = search.decide(capacity, nodes, True, True, budget.remaining_seconds())
            if decision.verdict == _core.Verdict.FITS:
                parts.remove((part, search))
            if decision.verdict == _core.Verdict.REFUTED:
                return _in_tensors(part, decision.tree)
    return None


def _in_tensors(part: Component, tree: list[int]) -> tuple[list[list[int]], list[int]]:
    cliques = [part.tensors[clique].tolist() for clique in part.sections.live_sets()]
    tensors = part.tensors.tolist()
    named: list[int] = []
    while len(named) < len(tree):
        at, count = len(named), tree[len(named)]
        named += [count, *(tensors[member] for member in tree[at + 1 : at + 1 + count])]
    return [clique for clique in cliques if clique], named
