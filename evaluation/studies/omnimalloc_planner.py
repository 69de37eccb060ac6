"""The peer's allocators as planners: judged, limited and recorded as ours are."""

from __future__ import annotations

import time
from dataclasses import replace

from evaluation.measuring.resident_memory import (
    give_back_heap,
    resident_peak,
    restart_peak,
)
from evaluation.peers.omnimalloc_peer import SUPERMALLOC, Peer
from planners.model.budget import Budget
from planners.model.plan import Result
from planners.model.problem import Problem, Scalar
from planners.registry import register


@register("omnimalloc", summary="An allocator of the package omnimalloc")
def omnimalloc(
    problem: Problem, budget: Budget, allocator: str = SUPERMALLOC, threads: int = 0
) -> Result:
    """Plan by omnimalloc; its statistics are cost without what brings objects to its form.

    It has the threads of the budget, or as many as are given.
    """
    peer = Peer(allocator, replace(budget, threads=threads or budget.threads))
    allocations = peer.allocations_of(problem)
    # Memory that the first plan freed would serve the allocator at no cost.
    give_back_heap()
    before = restart_peak()
    begun = time.process_time()
    placed = peer.run(allocations, problem.capacity)
    statistics: dict[str, Scalar] = {"placing_seconds": time.process_time() - begun}
    if before is not None:
        statistics["placing_bytes"] = max(0, resident_peak() - before)
    return replace(peer.result(problem, placed), statistics=statistics)
