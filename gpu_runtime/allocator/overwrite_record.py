"""Writes to free memory, as people read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_runtime._core import Overwrite, PlannedAllocator, Tenant
from planners.errors import DeviceError
from planners.text.byte_units import exact_bytes
from planners.text.table import and_more

SHOWN_OVERWRITES = 10


@dataclass(frozen=True)
class TenantRecord:
    """A block that was, or came to be, where somebody wrote.

    Parameters
    ----------
    address, size
        Where it began, and its bytes as requested.
    stream
        That it was allocated on.
    request
        Its number, from the first of the process on.
    kind, slot
        Of its step: the kind by its number in the plan of that time, and the request by its number
        in the step; -1 where the plan had none.
    step
        Number of the step in which it was freed, or requested.
    """

    address: int
    size: int
    stream: int
    request: int
    kind: int
    slot: int
    step: int

    def __str__(self) -> str:
        """Return what it was, in one line."""
        planned = f", number {self.slot} of a step of kind {self.kind}" if self.kind >= 0 else ""
        return (
            f"request {self.request}{planned}, {exact_bytes(self.size)} bytes at "
            f"{self.address:#x} on stream {self.stream:#x}"
        )


@dataclass(frozen=True)
class OverwriteRecord:
    """Free memory that somebody wrote to.

    Parameters
    ----------
    address
        Of the first word that is not as it was left.
    offset
        Of that in the arena, -1 where it does not lie there.
    size
        Bytes that are not as they were left, in whole words of 8.
    before
        What lay there last; None where the memory was new, or it is too long ago.
    after
        What was to lie there; None where nobody had asked for it yet.
    """

    address: int
    offset: int
    size: int
    before: TenantRecord | None
    after: TenantRecord | None

    def __str__(self) -> str:
        """Return one line."""
        arena = f", {exact_bytes(self.offset)} in the arena" if self.offset >= 0 else ""
        parts = [f"{exact_bytes(self.size)} bytes at {self.address:#x}{arena}"]
        if self.before is None:
            parts.append("nothing is known to have lain there")
        else:
            within = self.address - self.before.address
            parts.append(
                f"byte {exact_bytes(within)} of {self.before}, freed in step {self.before.step}"
            )
        if self.after is not None:
            parts.append(f"then {self.after}, in step {self.after.step}")
        return "; ".join(parts)


def take_overwrites(
    allocator: PlannedAllocator, *, everywhere: bool = False
) -> tuple[OverwriteRecord, ...]:
    """Wait for the device and return what was found since this was asked last.

    Parameters
    ----------
    everywhere
        Whether to look at all that is free now, beside what was handed out again.
    """
    return tuple(_record(found) for found in allocator.take_overwrites(everywhere))


def overwrite_lines(overwrites: Sequence[OverwriteRecord]) -> list[str]:
    """Return a line that says what was found, and one for each of the first."""
    shown = [*map(str, overwrites[:SHOWN_OVERWRITES]), *and_more(len(overwrites), SHOWN_OVERWRITES)]
    return ["memory was written to while it was free:", *(f"  {line}" for line in shown)]


def require_none(overwrites: Sequence[OverwriteRecord]) -> None:
    """Raise ``DeviceError`` where free memory was written to."""
    if overwrites:
        what, first, *more = overwrite_lines(overwrites)
        beside = f" (and {len(overwrites) - 1:,} more, in the report)" if more else ""
        raise DeviceError(f"{what} {first.strip()}{beside}")


def _record(found: Overwrite) -> OverwriteRecord:
    return OverwriteRecord(
        found.address, found.offset, found.bytes, _tenant(found.before), _tenant(found.after)
    )


def _tenant(tenant: Tenant) -> TenantRecord | None:
    if not tenant.bytes:
        return None
    return TenantRecord(
        tenant.address, tenant.bytes, tenant.stream, tenant.request, tenant.kind, tenant.slot,
        tenant.step,
    )  # fmt: skip
