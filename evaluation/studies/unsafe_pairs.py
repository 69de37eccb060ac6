"""A planner that finds all unsafe pairs by one published algorithm, and tells what that took."""

from __future__ import annotations

import hashlib
import time
from statistics import median
from typing import Literal

import numpy as np

from planners.greedy.naive import naive
from planners.model.budget import Budget
from planners.model.findings import Findings
from planners.model.graph import Graph
from planners.model.problem import Problem
from planners.registry import UnsupportedProblemError, register
from planners.safety.algorithms import ALGORITHMS, core_graph


@register(
    "unsafe-pairs",
    summary="Find all unsafe pairs by one algorithm; no reuse",
    source="Lamprou et al. 2023, section 3",
)
def unsafe_pairs(
    problem: Problem,
    budget: Budget,
    algorithm: Literal["1", "1opt", "2", "clocks"] = "clocks",
    rounds: int = 5,
) -> Findings:
    """Find the unsafe pairs of a graph so many times; the plan is the naive one."""
    graph = problem.graph
    if graph is None:
        raise UnsupportedProblemError("lifetimes or pairs alone: the algorithms need a graph")
    prepared, find = core_graph(graph), ALGORITHMS[algorithm]
    seconds = []
    for _ in range(max(1, rounds)):
        begun = time.process_time()
        rows = find(prepared)
        seconds.append(time.process_time() - begun)
    relation = rows.matrix()
    return Findings(
        naive(problem, budget),
        statistics={
            "seconds": median(seconds),
            "worst_seconds": max(seconds),
            # Two answers are the same where their digests are.
            "relation": hashlib.sha256(np.packbits(relation).tobytes()).hexdigest(),
            "unsafe_pairs": int(relation.sum(dtype=np.int64)) // 2,
            "streams": graph.stream_count,
            "between_streams": _tensors_between_streams(graph),
        },
    )


def _tensors_between_streams(graph: Graph) -> int:
    """Return the number of tensors with readers on another stream than their producer's."""
    own = graph.stream[graph.producer]
    elsewhere = graph.stream[graph.consumer_nodes] != own[graph.consumer_tensors]
    return len(np.unique(graph.consumer_tensors[elsewhere]))
