"""A planner that finds what waits between streams save, for some numbers of waits."""

from __future__ import annotations

from dataclasses import replace

from planners.model.budget import Budget
from planners.model.findings import Findings
from planners.model.problem import Problem, Scalar
from planners.registry import UnsupportedProblemError, register
from planners.waits.waits_frontier import WaitsFrontier

COUNTS = (0, 1, 2, 5, 10, 20)


@register("bytes-against-waits", summary="Peaks and bounds with up to 20 waits more")
def bytes_against_waits(problem: Problem, budget: Budget, seconds: float = 3.0) -> Findings:
    """Find the frontier; the plan is that without waits."""
    if problem.graph is None or problem.lifetimes_decide:
        raise UnsupportedProblemError("a single stream: only nodes of two streams wait")
    frontier = WaitsFrontier(problem, replace(budget, time_limit_seconds=seconds))
    points = list(frontier.points(COUNTS))
    statistics: dict[str, Scalar] = {
        "nodes": problem.graph.node_count,
        "streams": problem.stream_count,
        "candidates": len(frontier.candidates),
        "heaviest": frontier.streams.heaviest,
        "least": frontier.streams.least.bytes,
    }
    for point in points:
        statistics |= {
            f"used_{point.count}": len(point.waits),
            f"peak_{point.count}": point.peak,
            f"bound_{point.count}": point.bound,
            f"by_{point.count}": point.certificate,
        }
    return Findings(points[0].result.plan, statistics=statistics)
