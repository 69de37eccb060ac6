"""The CPU as a device: real memory, streams on a simulated clock.

Note: a clock in place of threads.
Rationale: with threads the operating system decides the order. Here a delay of a trial is a delay
on a clock, every order that the arcs allow can be produced, and the same seed repeats the order.
Limits: nodes begin and end one after the other, so two nodes never write at the very same moment;
in ``threaded_device`` they may.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from gpu_runtime.verification.devices.device import DeviceOutcome
from gpu_runtime.verification.devices.host_arena import HostArena, WrongWords
from gpu_runtime.verification.trials.arena_layout import Layout
from gpu_runtime.verification.trials.stamp_check_program import StampCheckProgram
from gpu_runtime.verification.trials.trial import Trial

Moment = tuple[float, float, int, bool]


def execution_order(program: StampCheckProgram, trial: Trial) -> Iterator[tuple[int, bool]]:
    """Yield each node when it begins and when it ends, with True for the end.

    Only arcs hold streams up. Every node takes a tick and its delays; a lap is the time of the
    longest chain of nodes. The seed orders events of the same time.
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


class SimulatedDevice:
    """A device in host memory with simulated streams."""

    def __init__(self, program: StampCheckProgram, layout: Layout) -> None:
        self._program = program
        self._arena = HostArena(layout)
        self.figures = self._arena.figures("CPU, simulated streams", program)

    def run(self, trial: Trial) -> DeviceOutcome:
        """Run the whole program once, or until Ctrl-C, which keeps the findings so far."""
        found, interrupted = WrongWords(), False
        begun = time.perf_counter()
        try:
            for node, ends in execution_order(self._program, trial):
                if ends:
                    for tensor in self._program.checks[node]:
                        self._arena.check(tensor, trial.key, found)
                else:
                    for tensor in self._program.stamps[node]:
                        self._arena.stamp(tensor, trial.key)
        except KeyboardInterrupt:
            interrupted = True
        seconds = time.perf_counter() - begun
        return DeviceOutcome(seconds, found.foreign, found.broken, interrupted=interrupted)

    def close(self) -> None:
        self._arena.close()
