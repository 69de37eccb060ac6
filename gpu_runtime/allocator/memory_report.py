"""The report of a planned memory: bytes, requests, and mismatches with the plan."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from gpu_runtime._core import Mismatch, MismatchKind
from gpu_runtime.allocator.call_counts import DeviceUse
from gpu_runtime.allocator.memory_pause import PauseReport
from gpu_runtime.allocator.overwrite_record import OverwriteRecord, overwrite_lines
from planners.text.byte_units import exact_bytes
from planners.text.table import Row, Table, aligned_pairs, and_more, columns_of

SHOWN_MISMATCHES = 10


@dataclass(frozen=True)
class MismatchRecord:
    """A request of a planned step that the plan did not serve.

    Parameters
    ----------
    kind
        ``size``: the plan expects another size; ``extra``: it expects no more requests;
        ``stream``: it expects none on this stream; ``in_use``: another block occupies the place;
        ``grown``: the request is larger than its place.
    step
        Number of the step, from 0.
    request
        Number, within its step, of the request that the plan expects; -1 for none.
    size, expected_size
        Requested bytes, and the most bytes that the plan expects; -1 for none.
    in_the_way
        Number of the request whose block occupies the place, -1 for none.
    where
        The line of the program that made the request; empty if it is not known.
    """

    kind: str
    step: int
    request: int
    size: int
    expected_size: int
    stream: int
    in_the_way: int
    where: str

    def __str__(self) -> str:
        """Return one line."""
        made = f" at {self.where}" if self.where else ""
        asked = f"step {self.step}: {exact_bytes(self.size)} bytes on stream {self.stream:#x}{made}"
        if self.kind == "stream":
            return f"{asked}: the plan has no such stream"
        if self.kind == "extra":
            return f"{asked}: the plan ends after {self.request} requests"
        if self.kind == "in_use":
            return f"{asked}: request {self.request} of the plan, whose place is in use"
        expected = exact_bytes(self.expected_size)
        if self.kind == "grown":
            return f"{asked}: request {self.request} of the plan has a place for {expected} bytes"
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
        in_the_way=mismatch.in_the_way,
        where=where,
    )


@dataclass(frozen=True)
class KindReport:
    """One kind of step.

    Parameters
    ----------
    name
        The name that the user gave, ``step``, or ``between steps``.
    seen
        Number of steps of this kind, planned or not.
    requests
        Number of requests of one step.
    peak_bytes
        Most bytes of the arena that a step uses at once; 0 if the plan lacks the kind.
    served_requests, all_requests
        Requests of its steps since the first plan: those that the plan served or expected, and
        all.
    """

    name: str
    seen: int
    requests: int
    peak_bytes: int
    served_requests: int
    all_requests: int

    @property
    def share(self) -> float:
        """Share of the requests that went as planned; 0 before the first plan."""
        return self.served_requests / self.all_requests if self.all_requests else 0.0


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
    advice
        Advice for the user if trials refused all plans; empty otherwise.
    plans
        Number of plans that were adopted; a plan is made anew if steps change.
    kinds
        Kinds of step that were seen more than once.
    steps, planned_steps
        Number of steps that have ended, and of those that followed the plan.
    requested_bytes, allocated_bytes, reserved_bytes
        Peaks of the requested bytes, of the same requests in whole blocks of 512 bytes, and of the
        memory taken from the device.
    planned_bytes, lower_bound
        Bytes that a step needs under this plan, and under the best plan: the arena, and blocks that
        outlive a step. 0 without a plan.
    arena_bytes, escaping_bytes
        The two parts of `planned_bytes`: places of all kinds, and blocks without a place.
    planned_requests
        Number of requests that got their places.
    escaping_requests
        Number of requests that the plan expected, and gave no place because they live too long.
    grown_requests
        Number of requests that the plan expected, and that were larger than their places.
    fallback_requests, fallback_bytes
        Requests of planned steps that a heap served, since they did not match the plan; grown ones
        are among them.
    missing_requests
        Number of requests that the plan expected and that did not come in its order.
    mismatch_counts
        Number of the fallback requests, by kind of mismatch.
    mismatches
        The first mismatches.
    overwrites
        Writes to free memory that were found, with ``check=True``.
    device, last_step
        Device calls in all, and from the end of the step before the last to the end of the last;
        None if they are not counted. Those of pauses and resumes are left out.
    pause
        Paused memory; None if none ever was paused.
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
    planned_bytes: int
    lower_bound: int
    arena_bytes: int
    escaping_bytes: int
    planned_requests: int
    escaping_requests: int
    grown_requests: int
    fallback_requests: int
    fallback_bytes: int
    missing_requests: int
    mismatch_counts: dict[str, int]
    mismatches: tuple[MismatchRecord, ...]
    overwrites: tuple[OverwriteRecord, ...] = ()
    device: DeviceUse | None = None
    last_step: DeviceUse | None = None
    advice: str = ""
    pause: PauseReport | None = None

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
        if self.planned_bytes:
            rows += [
                ("planned", _amount(self.planned_bytes, "arena and what outlives a step")),
                ("  arena", _amount(self.arena_bytes, "")),
                ("  outlives", _amount(self.escaping_bytes, "")),
                ("bound", _amount(self.lower_bound, "no plan needs less")),
            ]
        if self.advice:
            rows.append(("advice", self.advice))
        if self.device is not None and self.last_step is not None:
            rows.append(("device", _use(self.device)))
            if self.steps:
                rows.append(("  a step", _use(self.device, self.steps)))
                rows.append(("  the last", _use(self.last_step)))
        if self.pause is not None:
            rows += self.pause.rows()
        rows += [
            ("requests", f"{self.planned_requests} planned, {self.escaping_requests} escaping"),
            (
                "fallback",
                f"{self.fallback_requests} requests, {exact_bytes(self.fallback_bytes)} bytes",
            ),
            ("missing", f"{self.missing_requests} requests"),
        ]
        shown = self.mismatches[:SHOWN_MISMATCHES]
        below = [*map(str, shown), *and_more(self.fallback_requests, SHOWN_MISMATCHES)]
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
                f"{kind.share:.1%}",
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
