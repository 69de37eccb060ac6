"""The report of a planned memory: bytes, requests, and mismatches with the plan."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from gpu_runtime._core import Mismatch, MismatchKind
from gpu_runtime.allocator.overwrite_record import OverwriteRecord, overwrite_lines
from planners.text.byte_units import exact_bytes
from planners.text.table import Row, Table, aligned_pairs, and_more, columns_of

SHOWN_MISMATCHES = 10


@dataclass(frozen=True)
class MismatchRecord:
    """A request that the plan did not serve.

    Parameters
    ----------
    kind
        ``size``: another one was expected; ``extra``: none was expected any more; ``stream``: none
        was expected of this stream; ``in_use``: something else lies in its place; ``grown``: it is
        larger than its place.
    step
        Number of the step, from 0.
    request
        Number, within its step, of the request that was expected; -1 for none.
    size, expected_size
        Bytes that were asked for and, at most, expected; -1 where nothing was.
    in_the_way
        Number of the request whose place is still in use, -1 for none.
    where
        Where in the program it was made, empty where that is not known.
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
        That the user gave, ``step``, or ``between steps``.
    seen
        Steps of this kind, planned or not.
    requests
        That a step makes.
    peak_bytes
        Of the arena that a step needs at once; 0 where the kind is not in the plan.
    served_requests, all_requests
        Of its steps since the plan, those that the plan served or expected, and all.
    """

    name: str
    seen: int
    requests: int
    peak_bytes: int
    served_requests: int
    all_requests: int

    @property
    def share(self) -> float:
        """Share of the requests that were as planned; 0 before any was."""
        return self.served_requests / self.all_requests if self.all_requests else 0.0


@dataclass(frozen=True)
class MemoryReport:
    """Peaks and counts since the last reset, or since the installation.

    Parameters
    ----------
    planner, status, reason
        Who planned; ``profiling``, ``optimal``, ``feasible``, and why there is no newer plan.
    plans
        How many were adopted; one is made anew when steps have changed.
    kinds
        Kinds of step that were seen more than once.
    steps, planned_steps
        That have ended, and of these the ones that the plan served.
    requested_bytes, allocated_bytes, reserved_bytes
        Peaks of what was asked for, of the same in whole blocks of 512 bytes, and of the device's
        memory that was taken.
    planned_bytes, lower_bound
        What a step needs by the plan, and would need by any: the arena and what outlives a step.
        0 without a plan.
    arena_bytes, escaping_bytes
        The two parts of `planned_bytes`: the places of all kinds, and what has none.
    planned_requests
        Served at the planned places.
    escaping_requests
        Expected, but without a place since they live too long.
    grown_requests
        Expected, and larger than their places.
    fallback_requests, fallback_bytes
        Made in planned steps and not as planned, grown ones among them; a heap served them.
    missing_requests
        In the plan and not made in its order; also where a step went on further down the plan.
    mismatch_counts
        Of the fallback requests, by kind.
    mismatches
        The first of them.
    overwrites
        Free memory that somebody wrote to, where that is looked for.
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

    @property
    def efficiency(self) -> float:
        """Peak of allocated over peak of reserved bytes; 1 where nothing was reserved."""
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


def _amount(size: int, what: str) -> str:
    return f"{exact_bytes(size):>19} bytes" + (f", {what}" if what else "")


def count_kinds(counts: list[int]) -> dict[str, int]:
    """Return how many mismatches there were by the name of their kind."""
    return {kind.name.lower(): counts[kind.value] for kind in MismatchKind if counts[kind.value]}
