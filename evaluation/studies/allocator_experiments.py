"""Serves the requests of an experiment in private pools, and looks after one of its steps."""

from __future__ import annotations

from collections import Counter
from itertools import groupby, product

from gpu_runtime._core import OnlineSegment, OnlineState
from gpu_runtime.online.online_allocators import make_online
from gpu_runtime.replaying.replay_device import open_replay_device
from planners.model.columns import BoolColumn
from planners.model.online_result import OnlineResult, OnlineTerms
from planners.model.problem import Scalar
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
    """Serve all steps, and return the segments and blocks as they are after one of them.

    Every request is made in each of some private pools, for each of some streams.
    """
    device = open_replay_device(requests, terms)
    served = make_online(allocator, {})[1](device.served)
    live: dict[tuple[int, int, int], int] = {}
    places = range(1, pools + 1), range(streams)

    def serve(rows: BoolColumn) -> None:
        for row, pool, stream in product(rows.nonzero()[0].tolist(), *places):
            number = int(requests.request[row])
            if requests.action[row] == RequestAction.ALLOCATE:
                served.enter_pool(pool)
                live[number, pool, stream] = served.allocate(int(requests.size[number]), stream)
            else:
                served.free(live.pop((number, pool, stream)))

    serve(requests.event <= step)
    segments = served.segments()
    texts = Counter(sorted(map(text_of, segments)))
    free = (each.bytes for its in segments for each in its.blocks if each.state == OnlineState.FREE)
    statistics: dict[str, Scalar] = {
        "reserved_now": served.figures().reserved_bytes,
        "segments": len(segments),
        "most_free": max(free, default=0),
        "layout": " + ".join(times(count, text) for text, count in texts.items()),
    }
    serve(requests.event > step)
    for pool in places[0]:
        served.end_pool(pool)
    figures = served.figures()
    statistics["left"] = figures.reserved_bytes
    peaks = figures.requested_peak, figures.allocated_peak, figures.reserved_peak
    return OnlineResult(*peaks, device.calls, seconds=0.0, statistics=statistics)


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
