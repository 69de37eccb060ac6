"""A planner that finds the cost of the order of a graph's nodes, and plans both orders."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from planners.judged_run import run
from planners.model.budget import Budget
from planners.model.findings import Findings
from planners.model.graph import Graph
from planners.model.plan import Plan
from planners.model.problem import Problem, Scalar
from planners.registry import UnsupportedProblemError, register
from planners.reorder.order_planning import reorder


@register("reorderings", summary="The cost of the order of nodes; plans of `auto` in both orders")
def reorderings(
    problem: Problem,
    budget: Budget,
    streams: Literal["kept", "one"] = "kept",
    search_seconds: float = 10.0,
    plan_seconds: float = 2.0,
) -> Findings:
    """Look for another order of the nodes, on their streams or all on one."""
    if problem.graph is None:
        raise UnsupportedProblemError("lifetimes or pairs alone: only a graph has other orders")
    given = problem if streams == "kept" else _on_one_stream(problem, problem.graph)
    found = reorder(given, replace(budget, time_limit_seconds=search_seconds))
    plan = _planned(given, budget, plan_seconds)
    statistics: dict[str, Scalar] = {
        "nodes": problem.graph.node_count,
        "given": found.given_bound.bytes,
        "reordered": found.bound.bytes,
        "least": found.least_bytes,
        "certificate": found.certificate,
        "search_seconds": round(found.seconds, 3),
        "given_peak": plan.peak,
        "reordered_peak": _planned(found.problem, budget, plan_seconds).peak,
    }
    # A plan for one stream is none for several.
    whole = plan if streams == "kept" else _planned(problem, budget, plan_seconds)
    return Findings(whole, statistics=statistics)


def _on_one_stream(problem: Problem, graph: Graph) -> Problem:
    return problem.select(
        np.arange(problem.tensor_count),
        graph=Graph(
            op=graph.op,
            stream=np.zeros(graph.node_count, dtype=np.int64),
            producer=graph.producer,
            consumers=[graph.consumers_of(tensor) for tensor in range(problem.tensor_count)],
            control=graph.control,
        ),
    )


def _planned(problem: Problem, budget: Budget, seconds: float) -> Plan:
    plan = run(problem, "auto", Budget(seconds, seed=budget.seed)).plan
    assert plan is not None
    return plan
