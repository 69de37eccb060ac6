"""The memory of captured graphs, by replays with other assignments of graphs to pools."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from instances.traces.allocation_trace import AllocationTrace
from instances.traces.trace_requests import requests_of_trace
from planners.errors import GaplessError
from planners.model.columns import IntColumn
from planners.model.online_result import OnlineTerms
from planners.model.request_sequence import RequestSequence
from planners.online.online_run import run_online
from planners.registry import ChosenOnline


@dataclass(frozen=True)
class CapturedGraph:
    """The bytes of one captured graph."""

    # The most live bytes of its requests at once, and those that live on after its capture.
    live: int
    left: int
    # The reserved bytes that its capture adds: if it is captured into the pool that the program
    # names, if all graphs are captured into one pool, and if each has its own.
    adds: int
    one_pool: int
    own_pool: int
    # The most reserved bytes up to the end of its capture, in the pools of the program.
    reserved: int

    @property
    def grown(self) -> tuple[int, int, int]:
        return self.adds, self.one_pool, self.own_pool


def captured_graphs(trace: AllocationTrace, allocator: ChosenOnline) -> list[CapturedGraph]:
    """Replay a trace with each arrangement of pools; a row for each capture, in their order."""
    if not trace.capture.any():
        return []
    requests = requests_of_trace(trace)
    asked = trace.size > 0
    capture, pool = trace.capture[asked], trace.pool[asked]
    at, unused = requests.allocation_rows, int(pool.max(initial=0)) + 1
    pools = (pool, *(np.where(capture > 0, unused + more, pool) for more in (0, capture)))
    series = [_reserved(requests, pool, allocator) for pool in pools]
    found = []
    for number in np.unique(capture[capture > 0]).tolist():
        its = capture == number
        # A capture makes no other requests. The row before its first one has no part in it.
        begin, last = int(at[its][0]) - 1, int(at[its][-1])
        behind = int(np.append(at[capture > number], requests.row_count)[0])
        live = requests.live_bytes(np.where(its, requests.size, 0))
        adds, one_pool, own_pool = (
            int(reserved[last] - (reserved[begin] if begin >= 0 else 0)) for reserved in series
        )
        most = int(series[0][: last + 1].max())
        left = int(live[behind - 1])
        found.append(CapturedGraph(int(live.max()), left, adds, one_pool, own_pool, most))
    return found


def _reserved(requests: RequestSequence, pool_of: IntColumn, allocator: ChosenOnline) -> IntColumn:
    """Return the reserved bytes after each row, with each request in the given pool."""
    arranged = replace(requests, pool=requests.of_rows(pool_of))
    (row,) = run_online(arranged, [allocator], OnlineTerms(has_series=True)).rows
    if row.result is None:
        raise GaplessError(f"{row.label}: {row.reason}")
    return row.result.reserved
