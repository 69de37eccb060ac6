"""The peer's allocators as planners: judged, limited and recorded as ours are."""

from __future__ import annotations

import time
from dataclasses import replace

from evaluation.benchmarks.contestants.omnimalloc_peer import SUPERMALLOC, Peer
from planners.model.budget import Budget
from planners.model.plan import Result
from planners.model.problem import Problem
from planners.registry import register


@register("omnimalloc", summary="An allocator of the package omnimalloc")
def omnimalloc(
    problem: Problem, budget: Budget, allocator: str = SUPERMALLOC, threads: int = 0
) -> Result:
    """Plan by omnimalloc; its statistic is the time without what brings objects to its form.

    It has the threads of the budget, or as many as are given.
    """
    peer = Peer(allocator, replace(budget, threads=threads or budget.threads))
    allocations = peer.allocations_of(problem)
    begun = time.process_time()
    placed = peer.run(allocations, problem.capacity)
    seconds = time.process_time() - begun
    return replace(peer.result(problem, placed), statistics={"placing_seconds": seconds})
