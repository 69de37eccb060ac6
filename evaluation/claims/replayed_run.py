"""A run whose requests several online allocators served, and what each of them took."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from evaluation.study.record import ANSWERED, Record
from gpu_runtime.allocator.policy_choice import FRAGMENTATION_LIMIT_MIB

GIB = 1 << 30
CACHING, EXPANDABLE, GMLAKE, VPMM = "pytorch-caching", "pytorch-expandable", "gmlake", "vpmm"
STWEAVER, PLANNED = "stweaver", "planned"
# STWeaver's static plan alone: dynamic requests go to the caching allocator.
STATIC_PLAN = "stweaver, static plan alone"
# The same run without its last iteration, from the study's own file.
LAST_ITERATION = "calls-in-last-iteration"
# Ends the name of the instance that a recorded trace is.
TRACE = ".npz"
# Calls in which the host waits until the device is done.
WAITS = ("synchronize_calls", "await_event_calls")

# A figure of such a run; None where one of the allocators that it is about has no record.
RunFigure = Callable[["ReplayedRun"], float | None]


@dataclass(frozen=True)
class ReplayedRun:
    """Records of one run, by allocator."""

    name: str
    by_allocator: Mapping[str, Record]

    def reserved(self, allocator: str) -> int | None:
        """Return the peak of reserved bytes."""
        record = self.by_allocator.get(allocator)
        return None if record is None else record.peak

    def allocated(self, allocator: str) -> int | None:
        """Return the peak of bytes in blocks."""
        record = self.by_allocator.get(allocator)
        return None if record is None else record.allocated

    def efficiency(self, allocator: str) -> float | None:
        """Return peak allocated by peak reserved bytes."""
        reserved, allocated = self.reserved(allocator), self.allocated(allocator)
        return None if not reserved or allocated is None else allocated / reserved

    def fragmentation(self, allocator: str) -> float | None:
        """Return the share of the peak of reserved bytes above that of allocated ones."""
        efficiency = self.efficiency(allocator)
        return None if efficiency is None else 1 - efficiency


def replayed_runs(records: Sequence[Record]) -> dict[str, ReplayedRun]:
    """Return the runs that records of online allocators tell of, by name."""
    found: dict[str, dict[str, Record]] = {}
    for record in records:
        if record.kind == "online" and record.status in ANSWERED:
            found.setdefault(record.instance.removesuffix(TRACE), {})[_allocator(record)] = record
    return {name: ReplayedRun(name, by_allocator) for name, by_allocator in found.items()}


def _allocator(record: Record) -> str:
    if record.planner == STWEAVER and record.parameters.get("reuse") == "none":
        return STATIC_PLAN
    limit = record.parameters.get("fragmentation_limit_mib", FRAGMENTATION_LIMIT_MIB)
    if record.planner == GMLAKE and limit != FRAGMENTATION_LIMIT_MIB:
        return f"{GMLAKE}, limit {limit} MiB"
    if record.planner == LAST_ITERATION:
        return f"{LAST_ITERATION}, {record.parameters['allocator']}"
    return record.planner


def measured(names: Iterable[str]) -> Callable[[Sequence[Record]], dict[str, ReplayedRun]]:
    """Return what finds the runs of these names in records."""
    wanted = tuple(names)

    def find(records: Sequence[Record]) -> dict[str, ReplayedRun]:
        return {name: run for name, run in replayed_runs(records).items() if name in wanted}

    return find


def efficiency_of(allocator: str) -> RunFigure:
    """Return the figure: peak allocated by peak reserved bytes."""
    return lambda run: run.efficiency(allocator)


def fragmentation_of(allocator: str) -> RunFigure:
    """Return the figure: one less the efficiency."""
    return lambda run: run.fragmentation(allocator)


def reserved_to(allocator: str, other: str) -> RunFigure:
    """Return the figure: by which share one reserves more than another."""

    def figure(run: ReplayedRun) -> float | None:
        its, others = run.reserved(allocator), run.reserved(other)
        return None if its is None or not others else its / others - 1

    return figure


def points_taken(allocator: str, other: str) -> RunFigure:
    """Return the figure: fragmentation of another less that of one."""

    def figure(run: ReplayedRun) -> float | None:
        its, others = run.fragmentation(allocator), run.fragmentation(other)
        return None if its is None or others is None else others - its

    return figure


def share_taken(allocator: str, other: str) -> RunFigure:
    """Return the figure: which share of another's fragmentation one takes away."""

    def figure(run: ReplayedRun) -> float | None:
        its, others = run.fragmentation(allocator), run.fragmentation(other)
        return None if its is None or not others else 1 - its / others

    return figure


def calls_in_last_iteration(allocator: str) -> RunFigure:
    """Return the figure: calls to the device that an allocator makes in the last iteration."""

    def figure(run: ReplayedRun) -> float | None:
        record = run.by_allocator.get(f"{LAST_ITERATION}, {allocator}")
        return None if record is None else float(calls_of(record))

    return figure


def pages_mapped_in_last_iteration(allocator: str) -> RunFigure:
    """Return the figure: how often an allocator maps a page in the last iteration."""

    def figure(run: ReplayedRun) -> float | None:
        record = run.by_allocator.get(f"{LAST_ITERATION}, {allocator}")
        return None if record is None else float(record.statistics.get("map_calls", 0))

    return figure


def waits_of(allocator: str) -> RunFigure:
    """Return the figure: how often the host waits for the device."""

    def figure(run: ReplayedRun) -> float | None:
        record = run.by_allocator.get(allocator)
        if record is None:
            return None
        return float(sum(int(record.statistics.get(name, 0)) for name in WAITS))

    return figure


def calls_of(record: Record) -> int:
    """Return how often an allocator asked the device."""
    return sum(int(count) for name, count in record.statistics.items() if name.endswith("_calls"))
