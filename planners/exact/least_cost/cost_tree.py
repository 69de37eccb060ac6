"""Proves a least cost in a form that a referee can check: rows, and a tree of packings of them."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from planners.errors import GaplessError
from planners.exact.decision_tree import refute
from planners.exact.least_cost.cost_rows import CostRow
from planners.exact.least_cost.least_cost import Decide, LeastCost, kept_apart
from planners.exact.least_cost.packing import Packing, pack
from planners.exact.model_limits import ModelTooLargeError, require_time
from planners.model.budget import Budget
from planners.model.certificate import LEAF, CostCertificate
from planners.model.findings import Findings
from planners.model.plan import Plan
from planners.model.problem import Problem

# Nodes, each of which takes a relaxation. A guess.
MOST_NODES = 4_000
# How far a share of a pair lies from a whole number if it is one but for rounding.
ROUNDING = 1e-6


def certify_cost(
    problem: Problem, cost: int, plan: Plan, decide: Decide, budget: Budget
) -> CostCertificate:
    """Return a certificate of what plans cost at least: a bound, or as much of it as it proves."""
    budget = budget.started()
    proof = LeastCost(problem, decide)
    try:
        proof.findings(_half(budget), Findings(plan))
        return _certificate(proof, cost, plan, budget)
    except (TimeoutError, ModelTooLargeError) as error:
        raise GaplessError(f"nothing is proven of the cost: {error}") from None


def _half(budget: Budget) -> Budget:
    return replace(budget, deadline=time.monotonic() + budget.remaining_seconds() / 2)


def _certificate(proof: LeastCost, cost: int, plan: Plan, budget: Budget) -> CostCertificate:
    root = pack(proof.pairs, proof.rows, {}, math.inf)
    tree: list[int | Packing] = [root]
    if root.cost < cost:
        try:
            tree = _tree(proof, cost, _half(budget))
        except TimeoutError:
            cost = root.cost
    used = sorted({row for node in tree if isinstance(node, Packing) for row in node.weights})
    number = {row: index for index, row in enumerate(used)}
    a, b, _ = proof.problem.reuse_prices.T
    return CostCertificate(
        cost,
        np.flatnonzero(proof.pairs.is_unsafe[a, b]).tolist(),
        [_in_sets(proof, proof.rows[row], budget) for row in used],
        [node if isinstance(node, int) else _as_leaf(node, number) for node in tree],
        plan if proof.pairs.cost(plan) == cost else None,
    )


def _as_leaf(node: Packing, number: dict[int, int]) -> list[int]:
    weights = ((number[row], weight) for row, weight in node.weights.items())
    return [node.per, *chain.from_iterable(weights)]


def _in_sets(proof: LeastCost, row: CostRow, budget: Budget) -> dict[str, Any]:
    """Return a row in the form of a file; a core with decisions that refute it."""
    if row.divisor is not None:
        return {"sets": [list(row.tensors)], "divisor": row.divisor}
    apart = kept_apart(proof.pairs, row.pairs)
    conflict = apart.core.conflicting_pins()
    if conflict is not None:
        return {"sets": [list(conflict)], "tree": [LEAF]}
    found = refute(apart, proof.pairs.capacity + 1, budget)
    if found is None:
        raise TimeoutError("decisions on pairs did not prove a core")
    return {"sets": found[0], "tree": found[1]}


def _tree(proof: LeastCost, cost: int, budget: Budget) -> list[int | Packing]:
    """Branch over pairs until packings prove the cost everywhere."""
    nodes: list[int | Packing] = []
    waiting: list[dict[int, bool]] = [{}]
    while waiting:
        require_time(budget)
        if len(nodes) >= MOST_NODES:
            raise TimeoutError("too many nodes")
        pays = waiting.pop()
        packing = pack(proof.pairs, proof.rows, pays, budget.remaining_seconds())
        if packing.cost >= cost:
            nodes.append(packing)
            continue
        halves = np.abs(packing.chosen - np.round(packing.chosen))
        pair = int(halves.argmax())
        if halves[pair] < ROUNDING:
            raise TimeoutError("the rows do not prove it")
        nodes.append(pair)
        waiting += [{**pays, pair: True}, {**pays, pair: False}]
    return nodes
