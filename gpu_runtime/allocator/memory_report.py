"""The report of a planned memory: bytes, requests, and mismatches with the plan."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from gpu_runtime._core import Mismatch, MismatchKind
from gpu_runtime.allocator.call_counts import DeviceUse
from gpu_runtime.allocator.graph_report import GraphReport
from gpu_runtime.allocator.memory_pause import PauseReport
from gpu_runtime.allocator.overwrite_record import OverwriteRecord, overwrite_lines
from planners.text.byte_units import exact_bytes
from planners.text.table import Row, Table, aligned_pairs, and_more, columns_of

SHOWN_MISMATCHES = 10


@dataclass(frozen=True)
class MismatchRecord:
    """A request that a plan did not expect; at all but ``in_use`` the step left its plan.

    Parameters
    ----------
    kind
        ``size``: the plan expects another size; ``extra``: it expects no more requests;
        ``stream``: it expects another stream; ``in_use``: another block occupies the place.
    step
        Number of the step, from 0.
    request
        Number of the request in its step.
    size, expected_size
        Requested bytes, and the bytes that the plan expects; -1 for none.
    where
        The line of the program that made the request; empty if it is not known.
    """

    kind: str
    step: int
    request: int
    size: int
    expected_size: int
    stream: int
    where: str

    def __str__(self) -> str:
        """Return one line."""
        made = f" at {self.where}" if self.where else ""
        asked = f"step {self.step}: {exact_bytes(self.size)} bytes on stream {self.stream:#x}{made}"
        if self.kind == "stream":
            return f"{asked}: request {self.request} of the plan is on another stream"
        if self.kind == "extra":
            return f"{asked}: the plan ends after {self.request} requests"
        if self.kind == "in_use":
            return f"{asked}: request {self.request} of the plan, whose place is in use"
        expected = exact_bytes(self.expected_size)
        return f"{asked}: request {self.request} of the plan has {expected} bytes"


def mismatch_record(mismatch: Mismatch, where: str) -> MismatchRecord:
    """Return a mismatch with its place in the program."""
    return MismatchRecord(
        kind=mismatch.kind.name.lower(),
        step=mismatch.step,
        request=mismatch.request,
        size=mismatch.bytes,
        expected_size=mismatch.expected_bytes,
        stream=mismatch.stream,
        where=where,
    )


@dataclass(frozen=True)
class KindReport:
    """One kind of step.

    Parameters
    ----------
    name
        The name that the user gave, or ``step``.
    seen
        Number of steps of this kind, planned or not.
    requests
        Number of requests of one step.
    peak_bytes
        Most bytes of the arena that a step uses at once; 0 if it has no plan.
    planned_steps
        Steps that followed their plan from end to end, since the last reset.
    """

    name: str
    seen: int
    requests: int
    peak_bytes: int
    planned_steps: int


@dataclass(frozen=True)
class MemoryReport:
    """Peaks and counts since the last reset, or since the installation.

    Parameters
    ----------
    planner
        Name and parameters of the planner.
    status
        ``profiling`` before the first plan; ``optimal`` or ``feasible`` with a plan; ``unplanned``
        if there is none for a reason.
    reason
        The reason why the last plan was not adopted, or was dropped; empty if it is in force.
    plans
        Number of plans that were adopted; a plan is made anew if steps change.
    kinds
        Kinds of step that were seen more than once.
    steps, planned_steps
        Number of steps that have ended, and of those that followed the plan.
    requested_bytes, allocated_bytes, reserved_bytes
        Peaks of the requested bytes, of the same requests in whole blocks of 512 bytes, and of the
        memory taken from the device.
    reserved_now
        Reserved bytes of this moment.
    default_bytes, default_now
        Bytes that PyTorch's allocator would reserve for the same requests by default: their peak,
        and those of this moment.
    expandable_bytes, expandable_now
        The same with expandable segments.
    requests_above_pytorch
        Number of requests after which more was reserved than by the better of both: small blocks
        lay in too many pages.
    arena_bytes, lower_bound
        Bytes of the arena with the places of all kinds, and a proven lower bound on them. 0 without
        a plan.
    escaping_bytes
        Most bytes of the blocks of one step that have no place, because they live too long.
    planned_requests, escaping_requests
        Number of requests that got their places, and of those that a plan expects without a place.
    unexpected_requests
        Number of requests of steps that had left their plan.
    mismatch_counts
        Number of the requests at which a step left its plan, by kind of mismatch.
    mismatches
        The first mismatches.
    overwrites
        Writes to free memory that were found, with ``check=True``.
    device, last_step
        Device calls in all, and from the end of the step before the last to the end of the last;
        None if they are not counted. Those of pauses and resumes are left out.
    pause
        Paused memory; None if none ever was paused.
    graphs
        Graphs that share memory; None if none was declared to be exclusive.
    """

    planner: str
    status: str
    reason: str
    plans: int
    kinds: tuple[KindReport, ...]
    steps: int
    planned_steps: int
    requested_bytes: int
    allocated_bytes: int
    reserved_bytes: int
    reserved_now: int
    default_bytes: int
    default_now: int
    expandable_bytes: int
    expandable_now: int
    requests_above_pytorch: int
    arena_bytes: int
    lower_bound: int
    escaping_bytes: int
    planned_requests: int
    escaping_requests: int
    unexpected_requests: int
    mismatch_counts: dict[str, int]
    mismatches: tuple[MismatchRecord, ...]
    overwrites: tuple[OverwriteRecord, ...] = ()
    device: DeviceUse | None = None
    last_step: DeviceUse | None = None
    pause: PauseReport | None = None
    graphs: GraphReport | None = None

    @property
    def pytorch_bytes(self) -> int:
        """Peak of the bytes that the better of PyTorch's two allocators would reserve."""
        return min(self.default_bytes, self.expandable_bytes)

    @property
    def efficiency(self) -> float:
        """Peak of allocated bytes over peak of reserved bytes; 1 if nothing was reserved."""
        return self.allocated_bytes / self.reserved_bytes if self.reserved_bytes else 1.0

    def to_json(self) -> dict[str, Any]:
        """Return every field as scalars, lists and objects."""
        return {**asdict(self), "efficiency": self.efficiency}

    def __str__(self) -> str:
        """Return a table for people."""
        status = f"{self.status}, {self.reason}" if self.reason else self.status
        rows = [
            ("planner", f"{self.planner}: {status}"),
            (
                "steps",
                f"{self.steps}, {self.planned_steps} of them planned; plans made: {self.plans}",
            ),
            ("requested", _amount(self.requested_bytes, "at its peak")),
            ("allocated", _amount(self.allocated_bytes, "in whole blocks")),
            ("reserved", _amount(self.reserved_bytes, f"efficiency {self.efficiency:.2%}")),
        ]
        rows.append(("PyTorch", _amount(self.default_bytes, "by default")))
        rows.append(("", _amount(self.expandable_bytes, "with expandable segments")))
        if self.requests_above_pytorch:
            rows.append(("", f"{self.requests_above_pytorch:,} requests took more than PyTorch"))
        if self.arena_bytes:
            rows += [
                ("arena", _amount(self.arena_bytes, "")),
                ("  bound", _amount(self.lower_bound, "no plan needs less")),
                ("outlives", _amount(self.escaping_bytes, "at most, of one step")),
            ]
        if self.device is not None and self.last_step is not None:
            rows.append(("device", _use(self.device)))
            if self.steps:
                rows.append(("  a step", _use(self.device, self.steps)))
                rows.append(("  the last", _use(self.last_step)))
        if self.pause is not None:
            rows += self.pause.rows()
        if self.graphs is not None:
            rows += self.graphs.rows()
        rows.append(
            (
                "requests",
                f"{self.planned_requests} planned, {self.escaping_requests} escaping, "
                f"{self.unexpected_requests} after a step left its plan",
            )
        )
        left = sum(self.mismatch_counts.values())
        shown = self.mismatches[:SHOWN_MISMATCHES]
        below = [*map(str, shown), *and_more(left, SHOWN_MISMATCHES)]
        lines = [aligned_pairs(rows).rstrip("\n"), *(f"  {line}" for line in below)]
        if self.overwrites:
            lines += ["", *overwrite_lines(self.overwrites)]
        if self.kinds:
            lines += ["", _kinds_table(self.kinds)]
        return "\n".join(lines)


def _kinds_table(kinds: tuple[KindReport, ...]) -> str:
    columns = columns_of("kind", "steps", "requests", "peak bytes", "as planned")
    rows = [
        Row(
            (
                kind.name,
                str(kind.seen),
                str(kind.requests),
                exact_bytes(kind.peak_bytes),
                str(kind.planned_steps),
            )
        )
        for kind in kinds
    ]
    return Table(columns, rows).plain().rstrip("\n")


def _use(use: DeviceUse, steps: int = 1) -> str:
    """Return device calls, by kind, as one line; with `steps`, those of an average step."""

    def shown(number: float) -> str:
        return f"{number / steps:,.1f}" if steps > 1 else exact_bytes(int(number))

    kinds = ", ".join(f"{shown(count)} {kind}" for kind, count in use.calls.items())
    return (
        f"{shown(use.host_waits)} host waits, {exact_bytes(use.moved_bytes // steps)} bytes moved, "
        f"{use.seconds * 1e3 / steps:,.3f} ms in calls: {kinds or 'none'}"
    )


def _amount(size: int, what: str) -> str:
    return f"{exact_bytes(size):>19} bytes" + (f", {what}" if what else "")


def count_kinds(counts: list[int]) -> dict[str, int]:
    """Return the number of mismatches of each kind, by its name."""
    return {kind.name.lower(): counts[kind.value] for kind in MismatchKind if counts[kind.value]}
