"""What it costs to take memory from a device and give it back, in pieces of some size."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from gpu_runtime._core import CountingMemory, DeviceMemory

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
    # Of a piece; there is one where memory is plain.
    piece_bytes: int
    # By kind of call.
    seconds: dict[str, float]

    @property
    def pieces(self) -> int:
        """Number of pieces."""
        return self.total_bytes // self.piece_bytes

    def calls(self, kind: str) -> int:
        """Return how often a kind of call was made."""
        return 1 if kind in (AT_ONCE, "reserve_range", "release_range") else self.pieces


def mapped_seconds(
    memory: DeviceMemory, total_bytes: int, piece_bytes: int, repetitions: int
) -> CallSeconds:
    """Return what mapped memory costs: reserved once, the rest piece by piece.

    Access is set for each piece in one round and for the whole range in the next.
    """

    def both_rounds() -> dict[str, float]:
        piecewise = _mapped_round(memory, total_bytes, piece_bytes, access_bytes=piece_bytes)
        at_once = _mapped_round(memory, total_bytes, piece_bytes, access_bytes=total_bytes)
        return {**piecewise, AT_ONCE: at_once["set_access"]}

    return CallSeconds(total_bytes, piece_bytes, _medians(both_rounds, repetitions))


def plain_seconds(memory: DeviceMemory, total_bytes: int, repetitions: int) -> CallSeconds:
    """Return what the same memory costs in one plain allocation."""

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
    """Time what is asked within, in the core, where no interpreter stands between two calls."""
    asked = CountingMemory(memory, is_timed=True)
    seconds: dict[str, float] = {}
    yield asked, seconds
    seconds.update({kind: getattr(asked.nanoseconds, kind) / 1e9 for kind in kinds})


def _medians(take: Callable[[], dict[str, float]], repetitions: int) -> dict[str, float]:
    """Return the median of each kind, after a round that only warms up."""
    take()
    rounds = [take() for _ in range(repetitions)]
    return {kind: statistics.median(each[kind] for each in rounds) for kind in rounds[0]}
