"""Replays the traces of a program under each of several allocators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_runtime.fitting.allocator_replay import fit_of_allocator
from gpu_runtime.fitting.graph_pools import captured_graphs
from gpu_runtime.fitting.live_peak import find_live_peak
from gpu_runtime.fitting.outside_memory import CHANNELS, OutsideMemory
from gpu_runtime.fitting.rank_fit import LIVE, AllocatorFit, RankFit, is_pytorch, worst_rank
from gpu_runtime.fitting.traced_program import AskedProgram, Changes, Traced
from instances.extract.record.ranks.rank import GroupFacts
from instances.traces.trace_requests import requests_of_trace
from planners.errors import InstanceError, errors_at
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
                traced: dict[int, Traced] = {}
                unlike = [0]
                for rank in unlike:
                    if rank not in traced:
                        for one in self.program.trace(changes, vary, rank):
                            traced[int(one.origin.get("rank", 0))] = one
                        unlike += GroupFacts.of(traced[rank].origin).unlike
                return [self.replayed(traced[rank]) for rank in sorted(traced)]
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
        """Replay a trace under each allocator, in the room that the memory leaves it."""
        trace, requests = traced.trace, requests_of_trace(traced.trace)
        if not requests.request_count:
            raise InstanceError(
                f"{trace.name}: at least one request for memory is needed, found none"
            )
        outside = OutsideMemory(self.beside, GroupFacts.of(traced.origin).groups, self.channels)
        room = None if self.memory is None else outside.room_in(self.memory)
        peak = find_live_peak(trace)
        fits = None if room is None else peak.size <= room
        rows = [AllocatorFit(LIVE, peak.size, fits, peak.parts)]
        # Other allocators have no pools; in a training PyTorch's serves these requests.
        able = [one for one in self.allocators if is_pytorch(one.label) or not requests.pool.any()]
        for allocator in able:
            show_progress(f"{traced.label}: {allocator.label}")
            rows.append(fit_of_allocator(requests, allocator, peak.size, room))
        graphs = captured_graphs(trace, able[0]) if able else ()
        return RankFit(traced, peak, tuple(rows), outside, self.memory, graphs)
