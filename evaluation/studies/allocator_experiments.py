"""Serves the requests of an experiment up to one of its steps, in private pools."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import groupby, product

from gpu_runtime._core import OnlineSegment, OnlineState
from gpu_runtime.online.online_allocators import make_online
from gpu_runtime.replaying.replay_device import open_replay_device
from planners.model.online_result import OnlineResult, OnlineTerms
from planners.model.request_sequence import RequestAction, RequestSequence
from planners.registry import register_online

MIB = 1 << 20
NAMES = {OnlineState.ALLOCATED: "active", OnlineState.FREE: "free", OnlineState.PENDING: "pending"}


@register_online("experiment")
def experiment(
    requests: RequestSequence,
    terms: OnlineTerms,
    *,
    allocator: str = "pytorch-caching",
    step: int = 1,
    pools: int = 1,
    streams: int = 1,
) -> OnlineResult:
    """Serve the steps up to one, and return the segments and blocks at its end.

    Every request is made in each of some private pools, for each of some streams.
    """
    device = open_replay_device(requests, terms)
    served = make_online(allocator, {})[1](device.served)
    live: dict[tuple[int, int, int], int] = {}
    rows = (requests.event <= step).nonzero()[0]
    places = range(1, pools + 1), range(streams)
    for row, pool, stream in product(rows.tolist(), *places):
        number = int(requests.request[row])
        if requests.action[row] == RequestAction.ALLOCATE:
            served.enter_pool(pool)
            address = served.allocate(int(requests.size[number]), stream)
            live[number, pool, stream] = address
        else:
            served.free(live.pop((number, pool, stream)))
    figures, segments, calls = served.figures(), served.segments(), device.calls
    texts = Counter(sorted(map(text_of, segments)))
    free = (each.bytes for its in segments for each in its.blocks if each.state == OnlineState.FREE)
    result = OnlineResult(
        figures.requested_peak,
        figures.allocated_peak,
        figures.reserved_peak,
        calls,
        seconds=0.0,
        statistics={
            "reserved_now": figures.reserved_bytes,
            "segments": len(segments),
            "most_free": max(free, default=0),
            "layout": " + ".join(times(count, text) for text, count in texts.items()),
        },
    )
    for address in live.values():
        served.free(address)
    for pool in places[0]:
        served.end_pool(pool)
    left = served.figures().reserved_bytes
    return replace(result, statistics={**result.statistics, "left": left})


def text_of(segment: OnlineSegment) -> str:
    """Return the mapped blocks of a segment, such as ``(2 x 16 active, 4 free)``, in MiB."""
    blocks = [
        f"{each.bytes / MIB:g} {NAMES[each.state]}"
        for each in segment.blocks
        if each.state != OnlineState.UNMAPPED
    ]
    return f"({', '.join(times(len(list(group)), text) for text, group in groupby(blocks))})"


def times(count: int, text: str) -> str:
    """Return a text with the number of its occurrences, unless it occurs once."""
    return text if count == 1 else f"{count} x {text}"
