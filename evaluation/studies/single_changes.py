"""A planner that finds which single wait or chain of a graph is worth most memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from evaluation.findings.waits import (
    WorthOfWait,
    best_new_waits,
    dearest_waits,
    with_wait,
    without_wait,
)
from planners.greedy.place import place
from planners.model.bounds import bounds_of
from planners.model.budget import Budget
from planners.model.findings import Findings
from planners.model.graph import Graph
from planners.model.plan import Plan
from planners.model.problem import Problem, Scalar
from planners.registry import UnsupportedProblemError, register
from planners.run import run


@register(
    "single-changes",
    summary="The waits and chains that are worth most memory, each alone; plans of `auto`",
)
def single_changes(
    problem: Problem,
    budget: Budget,
    change: Literal["less", "more", "chain"] = "less",
    most: int = 10,
    seconds: float = 1.0,
) -> Findings:
    """Take a wait away, add one or drop a chain; ``auto`` has so many seconds for each plan."""
    graph = problem.graph
    if graph is None:
        raise UnsupportedProblemError("lifetimes or pairs alone: only a graph has waits")
    today = _planned(problem, budget, seconds)
    statistics: dict[str, Scalar] = {
        "bound": max(bound.bytes for bound in bounds_of(problem, seconds)),
        "peak": today.peak,
        "greedy": place(problem, "size", "first", budget=budget).peak,
    }
    if change == "chain":
        statistics |= _without_chains(problem, budget, most, seconds)
        return Findings(today, statistics=statistics)
    found = (dearest_waits if change == "less" else best_new_waits)(graph, problem.size, most)
    changed = without_wait if change == "less" else with_wait
    statistics |= {"candidates": found.candidates, "judged": found.judged}
    for rank, worth in enumerate(found.most, 1):
        other = _like(problem, graph=changed(graph, worth.wait))
        fields = dict(_fields_of(graph, worth))
        fields["peak"] = _planned(other, budget, seconds).peak
        statistics |= {f"{rank}.{name}": value for name, value in fields.items()}
    return Findings(today, statistics=statistics)


def _fields_of(graph: Graph, worth: WorthOfWait) -> Iterator[tuple[str, Scalar]]:
    u, v = worth.wait.before, worth.wait.after
    for name, node in (("before", u), ("after", v)):
        yield name, f"{graph.op[node]} {node}"
        yield f"{name}_stream", int(graph.stream[node])
    carries = ((graph.producer[graph.consumer_tensors] == u) & (graph.consumer_nodes == v)).any()
    yield "data", bool(carries)
    yield "bytes", worth.change


def _without_chains(
    problem: Problem, budget: Budget, most: int, seconds: float
) -> dict[str, Scalar]:
    """Return the chains without which a greedy plan is lowest, and what ``auto`` makes of that."""
    chains = list(problem.contiguous)
    dropped = [
        _like(problem, contiguous=[*chains[:index], *chains[index + 1 :]])
        for index in range(len(chains))
    ]
    greedy = [place(each, "size", "first", budget=budget).peak for each in dropped]
    statistics: dict[str, Scalar] = {"candidates": len(chains), "judged": len(chains)}
    order = sorted(range(len(chains)), key=lambda index: greedy[index])
    for rank, index in enumerate(order[:most], 1):
        fields: dict[str, Scalar] = {
            "chain": index,
            "members": len(chains[index]),
            "chain_bytes": int(problem.size[list(chains[index])].sum()),
            "greedy": greedy[index],
            "bound": max(bound.bytes for bound in bounds_of(dropped[index], seconds)),
            "peak": _planned(dropped[index], budget, seconds).peak,
        }
        statistics |= {f"{rank}.{name}": value for name, value in fields.items()}
    return statistics


def _like(problem: Problem, **changes: object) -> Problem:
    """Return the problem with another graph or with other chains."""
    fields = {
        "graph": problem.graph,
        "contiguous": problem.contiguous,
        "alignment": problem.alignment,
        "pinned": problem.pinned,
    }
    return Problem(problem.size, **{**fields, **changes})  # type: ignore[arg-type]


def _planned(problem: Problem, budget: Budget, seconds: float) -> Plan:
    plan = run(problem, "auto", Budget(seconds, seed=budget.seed)).plan
    assert plan is not None
    return plan
