"""Reports of writes to free memory."""

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
    """The last block before a write to free memory, or the first block after it, at that address.

    Parameters
    ----------
    address, size
        Address of its first byte, and its requested bytes.
    stream
        The stream of its request.
    request
        Number of its request in its step; -1 outside of steps.
    step
        Number of the step that freed the last block, or requested the first.
    """

    address: int
    size: int
    stream: int
    request: int
    step: int

    def __str__(self) -> str:
        """Return one line on the block."""
        made = f"request {self.request}" if self.request >= 0 else "a request outside of steps"
        return (
            f"{made}, {exact_bytes(self.size)} bytes at "
            f"{self.address:#x} on stream {self.stream:#x}"
        )


@dataclass(frozen=True)
class OverwriteRecord:
    """A write to free memory.

    Parameters
    ----------
    address
        Address of the first changed word.
    offset
        Offset of this word in the arena; -1 outside of the arena.
    size
        Changed bytes, in whole words of 8.
    before
        The last block at this address; None if there was none, or its free is too long ago.
    after
        The next block at this address; None if none was requested yet.
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
            parts.append("no earlier block is known there")
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
    """Wait for the device, and return the overwrites found since the last call.

    Parameters
    ----------
    everywhere
        Whether to check all memory that is free now; memory is always checked when it is served
        again.
    """
    return tuple(_record(found) for found in allocator.take_overwrites(everywhere))


def overwrite_lines(overwrites: Sequence[OverwriteRecord]) -> list[str]:
    """Return a headline, and a line for each of the first overwrites."""
    shown = [*map(str, overwrites[:SHOWN_OVERWRITES]), *and_more(len(overwrites), SHOWN_OVERWRITES)]
    return ["memory was written to while it was free:", *(f"  {line}" for line in shown)]


def require_none(overwrites: Sequence[OverwriteRecord]) -> None:
    """Raise ``DeviceError`` if there are overwrites."""
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
    return TenantRecord(tenant.address, tenant.bytes, tenant.stream, tenant.request, tenant.step)
