"""A planner that counts what streams make of a graph: unsafe pairs, streams, open streams."""

from __future__ import annotations

from instances.extract.kernels.streams import count_open
from planners.greedy.naive import naive
from planners.model.budget import Budget
from planners.model.findings import Findings
from planners.model.problem import Problem
from planners.registry import UnsupportedProblemError, register


@register("stream-counts", summary="Count unsafe pairs, streams and open streams; no reuse")
def stream_counts(problem: Problem, budget: Budget) -> Findings:
    """Count, and return the naive plan."""
    graph = problem.graph
    if graph is None:
        raise UnsupportedProblemError("lifetimes or pairs alone: only a graph has streams")
    open_streams, followers = count_open(graph)
    return Findings(
        naive(problem, budget),
        statistics={
            "streams": graph.stream_count,
            "unsafe_pairs": int(problem.core.unsafe_degrees().sum()) // 2,
            # Counted among the streams that follow a full one of their category.
            "open_streams": open_streams,
            "following_streams": followers,
        },
    )
