"""Recordings that are made here: small ones by hand, and those of random requests."""

from __future__ import annotations

from random import Random
from typing import Any

from instances.traces.allocation_trace import AllocationTrace
from instances.traces.trace_requests import requests_of_trace
from planners.model.request_sequence import RequestSequence

MIB = 1 << 20
BASE = 1 << 40
SEGMENT_ALLOC, SEGMENT_FREE, SEGMENT_MAP = 0, 1, 2
SIZES = (1, 700, 70_000, MIB, MIB + 1, 3 * MIB, 11 * MIB, 30 * MIB)


def caching_trace(**changes: Any) -> AllocationTrace:
    """Return what PyTorch does by default with requests of 1 KiB, 2 MiB twice, and 1 MiB + 1.

    event          0   1     2   3     4     5     6   7
    1 KiB          seg [-------------------------------->   in 2 MiB
    2 MiB              seg   [---)                          in 20 MiB
    2 MiB                        [------------)             behind the first
    1 MiB + 1                              [-------->       in place of the first
    """
    columns: dict[str, Any] = {
        "event_count": 9,
        "size": [1024, 2 * MIB, 2 * MIB, MIB + 1],
        "alloc": [1, 3, 4, 6],
        "free_requested": [9, 5, 7, 9],
        "freed": [9, 5, 8, 9],
        "address": [BASE, BASE + 64 * MIB, BASE + 66 * MIB, BASE + 64 * MIB],
        "segments": [
            (0, SEGMENT_ALLOC, BASE, 2 * MIB, 0), (2, SEGMENT_ALLOC, BASE + 64 * MIB, 20 * MIB, 0),
        ],
    }  # fmt: skip
    return AllocationTrace(**{**columns, **changes})


def caching_requests(**changes: Any) -> RequestSequence:
    return requests_of_trace(caching_trace(**changes))


def random_trace(seed: int, requests: int = 300, *, streams: int = 1) -> AllocationTrace:
    """Return requests of random sizes and lives, whose frees complete late here and there."""
    rng = Random(seed)
    events = 4 * requests
    begins = sorted(rng.sample(range(events), requests))
    asked = [min(begin + rng.randint(1, 200), events) for begin in begins]
    late = [min(end + rng.choice((0, 0, 0, 40)), events) for end in asked]
    return AllocationTrace(
        events,
        [rng.choice(SIZES) for _ in begins],
        begins,
        asked,
        late,
        stream=[rng.randrange(streams) for _ in begins],
        address=range(1, requests + 1),
        name=f"random {seed}",
    )
