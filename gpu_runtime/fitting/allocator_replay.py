"""Replays requests under one allocator, and says whether they fit."""

from __future__ import annotations

from gpu_runtime.fitting.live_peak import peaks_of_parts
from gpu_runtime.fitting.rank_fit import AllocatorFit
from planners.errors import GaplessError
from planners.model.online_result import OnlineResult, OnlineTerms
from planners.model.request_sequence import RequestSequence
from planners.online.online_run import run_online
from planners.registry import ChosenOnline


def fit_of_allocator(
    requests: RequestSequence, allocator: ChosenOnline, live_peak: int, room: int | None
) -> AllocatorFit:
    """Replay requests with more than enough memory, and in the room if more is reserved.

    When memory runs out, an allocator gives idle memory back and tries again, as PyTorch does.
    """
    ample = _replay(requests, allocator, None)
    reserved = ample.reserved_peak
    fits = None if room is None else reserved <= room
    # No allocator can run in less than the live bytes.
    if room is not None and not fits and live_peak <= room:
        fits = _replay(requests, allocator, room).out_of_memory_row is None
    parts = peaks_of_parts(ample.reserved, requests.iteration_rows)
    return AllocatorFit(allocator.label, reserved, fits, parts)


def _replay(
    requests: RequestSequence, allocator: ChosenOnline, capacity: int | None
) -> OnlineResult:
    run = run_online(
        requests, [allocator], OnlineTerms(capacity=capacity, has_series=capacity is None)
    )
    if run.left_out:
        raise KeyboardInterrupt
    (row,) = run.rows
    if row.result is None:
        raise GaplessError(f"{row.label}: {row.reason}")
    return row.result
