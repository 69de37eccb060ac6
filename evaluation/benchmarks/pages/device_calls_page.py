"""What the calls cost by which allocators take memory from a device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from evaluation.benchmarks.measuring.device_calls import (
    AT_ONCE,
    CALLS,
    PLAIN,
    CallSeconds,
    mapped_seconds,
    plain_seconds,
)
from evaluation.benchmarks.pages.worded_page import WordedPage, table_of
from evaluation.report.figure_texts import milliseconds
from gpu_runtime._core import DeviceMemory
from planners.command_line.progress_line import show_progress
from planners.errors import GaplessError
from planners.text.byte_units import human_bytes, three_digits

SMALLEST_PIECE = 2 << 20
KINDS = (*CALLS[:4], AT_ONCE, *CALLS[4:])


@dataclass(frozen=True)
class DeviceCallStudy:
    """What all of it costs: mapped in pieces of each size, and plain."""

    # What the memory is taken from.
    device: str
    repetitions: int
    mapped: tuple[CallSeconds, ...]
    plain: CallSeconds

    def record(self) -> dict[str, Any]:
        """Return it as plain values, with seconds by kind of call."""
        return {"schema": "gapless-device-calls", "version": 1, **asdict(self)}


def piece_sizes(total_bytes: int) -> list[int]:
    """Return the powers of two, from that of a page on, in which memory is taken."""
    sizes = []
    size = SMALLEST_PIECE
    while size <= total_bytes:
        sizes.append(size)
        size *= 2
    if not sizes or total_bytes % sizes[-1]:
        raise GaplessError(
            f"--bytes: a power of two from {human_bytes(SMALLEST_PIECE)} on is needed, found "
            f"{total_bytes:,}"
        )
    return sizes


def study_device_calls(
    memory: DeviceMemory, device: str, total_bytes: int, repetitions: int
) -> DeviceCallStudy:
    """Measure mapped memory in pieces of each size, and plain memory."""
    mapped = []
    for size in piece_sizes(total_bytes):
        show_progress(f"{_mebibytes(total_bytes)} in pieces of {_mebibytes(size)}")
        mapped.append(mapped_seconds(memory, total_bytes, size, repetitions))
    plain = plain_seconds(memory, total_bytes, repetitions)
    return DeviceCallStudy(device, repetitions, tuple(mapped), plain)


def device_calls_page(study: DeviceCallStudy, command: str) -> WordedPage:
    """Show what was measured: in all, and a call."""
    in_all = [
        [
            _mebibytes(each.piece_bytes),
            f"{each.pieces:,}",
            *(milliseconds(each.seconds[kind]) for kind in KINDS),
            milliseconds(_sum(each, CALLS[:4])),
            milliseconds(_sum(each, CALLS[4:])),
        ]
        for each in study.mapped
    ]
    a_call = [
        [
            _mebibytes(each.piece_bytes),
            *(three_digits(1e6 * each.seconds[kind] / each.calls(kind)) for kind in KINDS),
        ]
        for each in study.mapped
    ]
    allocate, release = (milliseconds(study.plain.seconds[kind]) for kind in PLAIN)
    figures = {
        "total": _mebibytes(study.plain.total_bytes),
        "device": study.device,
        "repetitions": str(study.repetitions),
        "allocate-ms": allocate,
        "release-ms": release,
        "in-all": table_of(["piece", "pieces", *KINDS, "taking", "giving back"], in_all),
        "a-call": table_of(["piece", *KINDS], a_call),
    }
    return WordedPage("device-calls", command, figures)


def _mebibytes(size: int) -> str:
    return f"{size >> 20:,} MiB"


def _sum(each: CallSeconds, kinds: Sequence[str]) -> float:
    return sum(each.seconds[kind] for kind in kinds)
