"""Device calls of an allocator: how many there were, and how long they took, by kind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from gpu_runtime._core import CountingMemory, DeviceCalls, PlannedAllocator
from planners.model.online_result import WAITING_CALLS

KINDS = (
    "allocate_plain", "release_plain", "reserve_range", "release_range", "create_pages",
    "release_pages", "map", "set_access", "unmap", "synchronize", "await_event", "record_event",
    "make_wait",
)  # fmt: skip
# Calls that are timed and not counted: queries, such as whether an event is done, destroyed events,
# and copies of a pause.
OTHER = "other"


def call_counts(calls: DeviceCalls) -> dict[str, int]:
    """Return the number of calls of each kind; kinds without calls are left out."""
    return {kind: getattr(calls, kind) for kind in KINDS if getattr(calls, kind)}


def call_seconds(nanoseconds: DeviceCalls) -> dict[str, float]:
    """Return the seconds in the calls of each kind; kinds without any are left out."""
    taken = {kind: getattr(nanoseconds, kind) for kind in (*KINDS, OTHER)}
    return {kind: time / 1e9 for kind, time in taken.items() if time}


@dataclass(frozen=True)
class DeviceUse:
    """The device calls of planned memory over some steps.

    Parameters
    ----------
    calls
        Number of calls by kind; kinds without calls are left out.
    seconds
        Seconds in all calls, host waits included.
    moved_bytes
        Bytes of memory that moved to other addresses.
    """

    calls: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    moved_bytes: int = 0

    @property
    def host_waits(self) -> int:
        """Number of calls in which the host waits for the device."""
        return sum(self.calls.get(kind, 0) for kind in WAITING_CALLS)

    def numbers(self) -> dict[str, float]:
        """Return all numbers by name; those of calls are named ``calls.KIND``."""
        calls = {f"calls.{kind}": self.calls.get(kind, 0) for kind in KINDS}
        return {
            "host_waits": self.host_waits,
            "moved_bytes": self.moved_bytes,
            "seconds": self.seconds,
            **calls,
        }

    def since(self, before: DeviceUse) -> DeviceUse:
        """Return this use less the use before it."""
        calls = {kind: count - before.calls.get(kind, 0) for kind, count in self.calls.items()}
        return DeviceUse(
            {kind: count for kind, count in calls.items() if count},
            self.seconds - before.seconds,
            self.moved_bytes - before.moved_bytes,
        )


class DeviceMeter:
    """Measures the device calls of an allocator, in all and in the last step."""

    def __init__(self, allocator: PlannedAllocator, memory: CountingMemory) -> None:
        # The use from the end of the step before the last to the end of the last.
        self.last_step = DeviceUse()
        self._allocator = allocator
        self._memory = memory
        self._at_reset = self._at_step = self._now()

    @property
    def in_all(self) -> DeviceUse:
        """The use since the last reset."""
        return self._now().since(self._at_reset)

    def end_step(self) -> None:
        """Note that a step has ended."""
        now = self._now()
        self.last_step, self._at_step = now.since(self._at_step), now

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Leave out the device calls within the context."""
        in_all, in_step = self.in_all, self._now().since(self._at_step)
        try:
            yield
        finally:
            now = self._now()
            self._at_reset, self._at_step = now.since(in_all), now.since(in_step)

    def reset(self) -> None:
        """Measure from now."""
        self.last_step = DeviceUse()
        self._at_reset = self._at_step = self._now()

    def _now(self) -> DeviceUse:
        seconds = sum(call_seconds(self._memory.nanoseconds).values())
        moved = self._allocator.figures().moved_bytes
        return DeviceUse(call_counts(self._memory.calls), seconds, moved)
