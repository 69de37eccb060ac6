"""The order in which a program's nodes begin and end under given delays, on a simulated clock."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from gpu_runtime.verification.trials.stamp_check_program import StampCheckProgram
from gpu_runtime.verification.trials.trial import Trial

Moment = tuple[float, float, int, bool]


def execution_order(program: StampCheckProgram, trial: Trial) -> Iterator[tuple[int, bool]]:
    """Yield nodes as they begin and end, with whether they end, on streams held by arcs alone.

    Every node takes a tick and its delays; a lap is the time that the longest chain of nodes takes.
    The seed orders what happens at the same time.
    """
    lap = longest_chain(program)
    rank = np.random.default_rng([trial.seed, trial.number]).random(program.node_count).tolist()
    before, within = (lap * trial.before).tolist(), (lap * trial.within).tolist()
    missing = _awaited_counts(program)
    moments: list[Moment] = [
        (before[node], rank[node], node, False) for node in np.flatnonzero(missing == 0).tolist()
    ]
    heapq.heapify(moments)
    while moments:
        time, _, node, ends = heapq.heappop(moments)
        yield node, ends
        if not ends:
            heapq.heappush(moments, (time + 1 + within[node], rank[node], node, True))
            continue
        for successor in program.successors[node]:
            missing[successor] -= 1
            if not missing[successor]:
                begin = time + before[successor]
                heapq.heappush(moments, (begin, rank[successor], successor, False))


def longest_chain(program: StampCheckProgram) -> int:
    """Return the number of nodes on the longest directed path."""
    depth = [1] * program.node_count
    for node, successors in enumerate(program.successors):
        for successor in successors:
            depth[successor] = max(depth[successor], depth[node] + 1)
    return max(depth, default=0)


def _awaited_counts(program: StampCheckProgram) -> NDArray[np.int64]:
    counts = np.zeros(program.node_count, dtype=np.int64)
    for successors in program.successors:
        np.add.at(counts, list(successors), 1)
    return counts
