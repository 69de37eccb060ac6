"""Measure the device calls by which allocators take memory and give it back."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from evaluation.benchmarks.worded_page import WordedPage, table_of
from evaluation.report.figure_texts import milliseconds
from gpu_runtime._core import CountingMemory, DeviceMemory
from planners.command_line.progress_line import show_progress
from planners.errors import GaplessError
from planners.text.byte_units import human_bytes, three_digits

# In the order in which they are made.
CALLS = (
    "reserve_range", "create_pages", "map", "set_access", "unmap", "release_pages", "release_range",
)  # fmt: skip
AT_ONCE = "set_access, whole range"
PLAIN = ("allocate_plain", "release_plain")


@dataclass(frozen=True)
class CallSeconds:
    """Seconds that each kind of call took for all memory, the median of repetitions."""

    total_bytes: int
    # Bytes of a piece; plain memory is one piece.
    piece_bytes: int
    # By kind of call.
    seconds: dict[str, float]

    @property
    def pieces(self) -> int:
        """Number of pieces."""
        return self.total_bytes // self.piece_bytes

    def calls(self, kind: str) -> int:
        """Return the number of calls of a kind."""
        return 1 if kind in (AT_ONCE, "reserve_range", "release_range") else self.pieces


def mapped_seconds(
    memory: DeviceMemory, total_bytes: int, piece_bytes: int, repetitions: int
) -> CallSeconds:
    """Return the seconds of mapped memory: one call reserves the range, the others go by piece.

    Access is set for each piece in one round and for the whole range in the next.
    """

    def both_rounds() -> dict[str, float]:
        piecewise = _mapped_round(memory, total_bytes, piece_bytes, access_bytes=piece_bytes)
        at_once = _mapped_round(memory, total_bytes, piece_bytes, access_bytes=total_bytes)
        return {**piecewise, AT_ONCE: at_once["set_access"]}

    return CallSeconds(total_bytes, piece_bytes, _medians(both_rounds, repetitions))


def plain_seconds(memory: DeviceMemory, total_bytes: int, repetitions: int) -> CallSeconds:
    """Return the seconds of the same memory in one plain allocation."""

    def one_round() -> dict[str, float]:
        with _timed(memory, PLAIN) as (asked, seconds):
            asked.release_plain(asked.allocate_plain(total_bytes))
        return seconds

    return CallSeconds(total_bytes, total_bytes, _medians(one_round, repetitions))


def _mapped_round(
    memory: DeviceMemory, total_bytes: int, piece_bytes: int, access_bytes: int
) -> dict[str, float]:
    with _timed(memory, CALLS) as (asked, seconds):
        begin = asked.reserve_range(total_bytes)
        addresses = range(begin, begin + total_bytes, piece_bytes)
        pages = [asked.create_pages(piece_bytes) for _ in addresses]
        for address, each in zip(addresses, pages, strict=True):
            asked.map(address, each, piece_bytes)
        for address in range(begin, begin + total_bytes, access_bytes):
            asked.set_access(address, access_bytes)
        asked.synchronize()
        for address in addresses:
            asked.unmap(address, piece_bytes)
        for each in pages:
            asked.release_pages(each)
        asked.release_range(begin, total_bytes)
    return seconds


@contextmanager
def _timed(
    memory: DeviceMemory, kinds: tuple[str, ...]
) -> Iterator[tuple[CountingMemory, dict[str, float]]]:
    """Time the calls within this context in the C++ core, which leaves out the interpreter."""
    asked = CountingMemory(memory, is_timed=True)
    seconds: dict[str, float] = {}
    yield asked, seconds
    seconds.update({kind: getattr(asked.nanoseconds, kind) / 1e9 for kind in kinds})


def _medians(take: Callable[[], dict[str, float]], repetitions: int) -> dict[str, float]:
    """Return the median of each kind, after a round that only warms up."""
    take()
    rounds = [take() for _ in range(repetitions)]
    return {kind: statistics.median(each[kind] for each in rounds) for kind in rounds[0]}


SMALLEST_PIECE = 2 << 20
KINDS = (*CALLS[:4], AT_ONCE, *CALLS[4:])


@dataclass(frozen=True)
class DeviceCallStudy:
    """The seconds of all calls: memory mapped in pieces of each size, and plain memory."""

    # The name of the device.
    device: str
    repetitions: int
    mapped: tuple[CallSeconds, ...]
    plain: CallSeconds

    def record(self) -> dict[str, Any]:
        """Return the study as plain values, with seconds by kind of call."""
        return {"schema": "gapless-device-calls", "version": 1, **asdict(self)}


def piece_sizes(total_bytes: int) -> list[int]:
    """Return the sizes of pieces: powers of two, from the size of a page to all bytes."""
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
    """Return the page of a study: the times in all, and for each call."""
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
