"""The resident memory of this process: its peak, and free memory that would hide a call's cost."""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress
from pathlib import Path

from planners.errors import GaplessError

# Written to clear_refs, this sets the peak of resident memory to the resident memory of now.
RESET_PEAK = "5"


def give_back_free_memory() -> None:
    """Give freed memory back to the system, so that a call cannot use it at no cost."""
    gc.collect()
    give_back_heap()


def give_back_heap() -> None:
    """Give freed memory back to the system, without a garbage collection; it takes no time."""
    # This call exists in glibc; other C libraries give memory back as it is freed.
    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def restart_peak() -> int | None:
    """Restart the peak of resident memory; return the resident bytes, None if Linux refuses it."""
    try:
        Path("/proc/self/clear_refs").write_text(RESET_PEAK)
    except OSError:
        return None
    return _status_bytes("VmRSS")


def resident_peak() -> int:
    """Return the most bytes that were resident since the peak was started again."""
    return _status_bytes("VmHWM")


def _status_bytes(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise GaplessError(f"memory is measured by /proc/self/status, which has no field {field} here")
