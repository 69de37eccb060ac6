"""Replays the traces of a program under each of several allocators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_runtime.fitting.live_peak import find_live_peak
from gpu_runtime.fitting.outside_memory import CHANNELS, OutsideMemory
from gpu_runtime.fitting.rank_fit import LIVE, AllocatorFit, RankFit, worst_rank
from gpu_runtime.fitting.traced_program import AskedProgram, Changes, Traced
from instances.extract.record.ranks.rank import GroupFacts
from instances.traces.trace_requests import requests_of_trace
from planners.errors import GaplessError, InstanceError, errors_at
from planners.model.online_result import OnlineResult, OnlineTerms
from planners.model.request_sequence import RequestSequence
from planners.online.online_run import run_online
from planners.processes import standard_output
from planners.registry import ChosenOnline
from planners.text.progress_line import show_progress


@dataclass(frozen=True)
class ReplayedProgram:
    """A program that is traced with changed values, and replayed under each allocator."""

    program: AskedProgram
    allocators: Sequence[ChosenOnline]
    # Bytes of the GPU; None if only the need is asked for.
    memory: int | None = None
    # Bytes that libraries and kernels take of them.
    beside: int = 0
    # Channels of NCCL in each group of ranks.
    channels: int = CHANNELS

    def each_rank(self, changes: Changes, vary: Sequence[str] = ()) -> list[RankFit]:
        """Trace the program with changed values, and replay it: once for each kind of rank."""
        try:
            with standard_output.kept_for_the_answer():
                first = self.replayed(self.program.trace(changes, vary))
                others = GroupFacts.of(first.traced.origin).unlike[1:]
                traced = (self.program.trace(changes, vary, rank) for rank in others)
                return [first, *map(self.replayed, traced)]
        finally:
            show_progress("")

    def worst(self, changes: Changes) -> RankFit:
        """Return the worst rank of the program with changed values."""
        return worst_rank(self.each_rank(changes))

    def worst_at(self, values: Changes) -> RankFit:
        """Return the worst rank at the values of a search, which errors name."""
        with errors_at(", ".join(f"{name} {value}" for name, value in values.items())):
            return self.worst(values)

    def replayed(self, traced: Traced) -> RankFit:
        """Replay a trace under each allocator with more than enough memory.

        An allocator that reserves more than the memory leaves it is replayed in that room as well:
        when memory runs out, it gives idle memory back and tries again, as PyTorch does.
        """
        trace, requests = traced.trace, requests_of_trace(traced.trace)
        if not requests.request_count:
            raise InstanceError(
                f"{trace.name}: at least one request for memory is needed, found none"
            )
        outside = OutsideMemory(self.beside, GroupFacts.of(traced.origin).groups, self.channels)
        room = None if self.memory is None else outside.room_in(self.memory)
        peak = find_live_peak(trace)
        rows = [AllocatorFit(LIVE, peak.size, None if room is None else peak.size <= room)]
        for allocator in self.allocators:
            show_progress(f"{traced.label}: {allocator.label}")
            reserved = _replay(requests, allocator, None).reserved_peak
            fits = None if room is None else reserved <= room
            # No allocator can run in less than the live bytes.
            if room is not None and not fits and rows[0].fits:
                fits = _replay(requests, allocator, room).out_of_memory_row is None
            rows.append(AllocatorFit(allocator.label, reserved, fits))
        return RankFit(traced, peak, tuple(rows), outside, self.memory)


def _replay(
    requests: RequestSequence, allocator: ChosenOnline, capacity: int | None
) -> OnlineResult:
    run = run_online(requests, [allocator], OnlineTerms(capacity=capacity))
    if run.left_out:
        raise KeyboardInterrupt
    (row,) = run.rows
    if row.result is None:
        raise GaplessError(f"{row.label}: {row.reason}")
    return row.result
