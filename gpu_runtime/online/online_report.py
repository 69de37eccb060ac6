"""What an online allocator did in a process: bytes, and what it asked of the device."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from planners.text.byte_units import exact_bytes
from planners.text.table import aligned_pairs


@dataclass(frozen=True)
class OnlineReport:
    """Peaks since the last reset or the installation, and calls of the device since the latter.

    Parameters
    ----------
    allocator
        Name and parameters of the online allocator.
    requested_bytes, allocated_bytes, reserved_bytes
        Peaks of what was asked for, of the same as the allocator rounds it up, and of the device's
        memory that was taken.
    device_calls
        How often the device was asked, by kind; the kinds that there were.
    device_seconds
        That these calls took, waits among them.
    """

    allocator: str
    requested_bytes: int
    allocated_bytes: int
    reserved_bytes: int
    device_calls: dict[str, int]
    device_seconds: float

    @property
    def efficiency(self) -> float:
        """Peak of allocated over peak of reserved bytes; 1 where nothing was reserved."""
        return self.allocated_bytes / self.reserved_bytes if self.reserved_bytes else 1.0

    def to_json(self) -> dict[str, Any]:
        """Return every field as scalars, lists and objects."""
        return {**asdict(self), "efficiency": self.efficiency}

    def __str__(self) -> str:
        """Return a table for people."""
        calls = ", ".join(f"{count:,} {kind}" for kind, count in self.device_calls.items())
        return aligned_pairs(
            [
                ("allocator", self.allocator),
                ("requested", f"{exact_bytes(self.requested_bytes)} bytes at its peak"),
                ("allocated", f"{exact_bytes(self.allocated_bytes)} bytes in whole blocks"),
                (
                    "reserved",
                    f"{exact_bytes(self.reserved_bytes)} bytes, efficiency {self.efficiency:.2%}",
                ),
                ("device", f"{self.device_seconds * 1e3:,.3f} ms in {calls or 'no call'}"),
            ]
        ).rstrip("\n")
