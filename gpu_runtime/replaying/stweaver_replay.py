"""STWeaver over the requests of a run: a static pool, its idle bytes, and a caching allocator."""

from __future__ import annotations

import enum
import time
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from gpu_runtime._core import PytorchCaching
from gpu_runtime.replaying.online_replay import replay_online, too_few_marks
from gpu_runtime.replaying.static_pool import StaticPool
from gpu_runtime.replaying.static_profile import (
    NO_TENSOR,
    PLACE_BYTES,
    StaticProfile,
    profile_static_requests,
)
from planners.dynamic.idle_space import idle_space
from planners.errors import InvalidPlanError
from planners.judged_run import run
from planners.model.budget import Budget
from planners.model.columns import IntColumn
from planners.model.online_result import OnlineResult, OnlineTerms
from planners.model.plan import Plan
from planners.model.request_sequence import NOWHERE, RequestAction, RequestSequence

# The reason that a table gives if a replay differs from STWeaver.
NO_LAYERS = (
    "took static events for the layers of dynamic requests: a recording with modules is needed, "
    "found none; see The allocators in docs/replaying.md"
)
# The offset of a dynamic request that fits nowhere in the pool.
NO_SPACE = -1


class Served(enum.IntEnum):
    """The ways in which STWeaver serves a request."""

    # Static, at its planned place.
    PLANNED = 0
    # Static, served by the caching allocator because its place was taken.
    DISPLACED = 1
    # Dynamic, in bytes of the pool that are idle.
    REUSED = 2
    # Dynamic, by the caching allocator.
    FALLBACK = 3


@dataclass(frozen=True, eq=False)
class StweaverReplay:
    """The result of a replay by STWeaver, and how each request was served."""

    result: OnlineResult
    # Bytes of the static pool.
    pool_bytes: int
    # A :class:`Served` for each request.
    served: IntColumn


def replay_stweaver(
    requests: RequestSequence,
    terms: OnlineTerms,
    planner: str,
    time_limit: float,
    *,
    reuse: bool = True,
    static: bool = True,
) -> StweaverReplay:
    """Replay a run by STWeaver, which profiled the first two iterations before the run.

    The pool is there before the first request. Without `reuse` dynamic requests go to the caching
    allocator. Without `static`, or without two marked iterations, all requests do.

    Source: Huang et al. 2026, sections 6 and 8.4.
    """
    profile = profile_static_requests(requests) if static else None
    if profile is None:
        nothing = np.full(requests.request_count, Served.FALLBACK, dtype=np.int64)
        cached = _cache(requests, terms)
        parts = _composition(requests, nothing, 0, cached.reserved_peak)
        why = "planned nothing: no request of the first iteration comes again in the second"
        cached = replace(
            cached, statistics=parts, not_done=(too_few_marks(requests) or why) if static else ""
        )
        return StweaverReplay(cached, 0, nothing)
    plan = _plan(profile, planner, time_limit)
    begun = time.perf_counter()
    served, offset, late_seconds = _serve(requests, profile, plan, reuse=reuse)
    seconds = time.perf_counter() - begun
    in_pool = (served == Served.PLANNED) | (served == Served.REUSED)
    offset[~in_pool] = NO_SPACE
    result = _with_pool(requests, terms, offset, plan.peak)
    is_whole = result.out_of_memory_row is None
    has_dynamic = bool((profile.tensor == NO_TENSOR).any())
    has_modules = requests.module.max(initial=NOWHERE) != NOWHERE
    result = replace(
        result,
        seconds=result.seconds + seconds,
        last_iteration_seconds=result.last_iteration_seconds + late_seconds if is_whole else 0.0,
        statistics=_composition(requests, served, plan.peak, result.reserved_peak),
        not_done=NO_LAYERS if has_dynamic and not has_modules else "",
    )
    return StweaverReplay(result, plan.peak, served)


def _cache(requests: RequestSequence, terms: OnlineTerms) -> OnlineResult:
    return replay_online(requests, terms, PytorchCaching, "plain")


def _plan(profile: StaticProfile, planner: str, time_limit: float) -> Plan:
    result = run(profile.static, planner, Budget(time_limit_seconds=time_limit))
    if result.plan is None:
        raise InvalidPlanError(
            f"planner {planner}: a plan of the static requests is needed, found none: "
            f"{result.status}, {result.reason}"
        )
    return result.plan


def _serve(
    requests: RequestSequence, profile: StaticProfile, plan: Plan, *, reuse: bool
) -> tuple[IntColumn, IntColumn, float]:
    """Return how each request is served, its pool offset, and the seconds of the last iteration."""
    space = np.full(requests.request_count, NO_SPACE, dtype=np.int64)
    lists: list[list[tuple[int, int]]] = []
    if reuse:
        dynamic = np.flatnonzero(profile.span[:, 0] < profile.span[:, 1])
        space[dynamic], cuts, intervals = idle_space(profile.static, plan, profile.span[dynamic])
        pairs = [(start, end) for start, end in intervals.tolist()]
        bounds = cuts.tolist()
        lists = [pairs[a:b] for a, b in pairwise(bounds)]
    served = np.full(requests.request_count, Served.FALLBACK, dtype=np.int64)
    offset = np.full(requests.request_count, NO_SPACE, dtype=np.int64)
    pool = StaticPool()
    tensor, spaces, planned = profile.tensor.tolist(), space.tolist(), plan.offsets.tolist()
    size = _place_bytes(requests).tolist()
    taken: dict[int, int] = {}
    last_row, late_begun = requests.last_iteration_row, time.perf_counter()
    rows = zip(requests.action.tolist(), requests.request.tolist(), strict=True)
    for row, (action, request) in enumerate(rows):
        if row == last_row:
            late_begun = time.perf_counter()
        if action == RequestAction.ALLOCATE:
            place: int | None = None
            if tensor[request] != NO_TENSOR:
                place = planned[tensor[request]]
                is_free = pool.take(place, size[request])
                served[request] = Served.PLANNED if is_free else Served.DISPLACED
                if not is_free:
                    continue
            elif spaces[request] != NO_SPACE:
                place = pool.best_fit(lists[spaces[request]], size[request])
                if place is None:
                    continue
                pool.take(place, size[request])
                served[request] = Served.REUSED
            if place is not None:
                taken[request] = offset[request] = place
        elif action == RequestAction.FREE_COMPLETED and request in taken:
            pool.free(taken.pop(request))
    return served, offset, time.perf_counter() - late_begun


def _with_pool(
    requests: RequestSequence, terms: OnlineTerms, offset: IntColumn, pool_bytes: int
) -> OnlineResult:
    """Return the result of a run that allocates its pool first, and has a cache for the rest."""
    in_pool = offset != NO_SPACE
    # The cache serves the rows of requests outside of the pool, and the rows that give memory back.
    is_cached = requests.of_rows(in_pool.astype(np.int64)) == 0
    rows = np.flatnonzero(is_cached)
    number = np.cumsum(~in_pool)
    cached = replace(
        requests,
        action=np.append(RequestAction.ALLOCATE, requests.action[rows]),
        request=np.append(0, requests.of_rows(number)[rows]),
        event=np.append(0, requests.event[rows]),
        size=np.append(pool_bytes, requests.size[~in_pool]),
        stream=np.append(0, requests.stream[~in_pool]),
        is_recorded=False,
        address=requests.address[:0],
        segments=requests.segments[:0],
        iteration_rows=1 + np.searchsorted(rows, requests.iteration_rows),
        phase=requests.phase[:0],
        module=requests.module[:0],
    )
    result = replay_online(
        cached,
        replace(terms, has_series=True),
        PytorchCaching,
    )
    # The row of the run for each row of the cache; the pool's is row 0.
    row_of = np.append(0, rows)
    ended = result.out_of_memory_row
    row_count = requests.row_count if ended is None else int(row_of[ended])
    # The index of the last row of the cache, at each row of the run.
    at = np.cumsum(is_cached)[:row_count]
    reserved = result.reserved[at]
    allocated = result.allocated[at] - result.allocated[:1]
    allocated += requests.live_bytes(np.where(in_pool, _place_bytes(requests), 0))[:row_count]
    requested = requests.live_bytes(requests.size)[:row_count]
    addresses = np.where(in_pool, result.addresses[0] + offset, result.addresses[number])
    addresses[requests.allocation_rows >= row_count] = 0
    segments = result.segments.copy()
    segments[:, 0] = row_of[segments[:, 0]]
    return replace(
        result,
        requested_peak=int(requested.max(initial=0)),
        allocated_peak=int(allocated.max(initial=0)),
        out_of_memory_row=None if ended is None else row_count,
        reserved=reserved if terms.has_series else reserved[:0],
        allocated=allocated if terms.has_series else allocated[:0],
        addresses=addresses,
        segments=segments,
    )


def _composition(
    requests: RequestSequence, served: IntColumn, pool_bytes: int, reserved_peak: int
) -> dict[str, int]:
    """Return the composition of STWeaver's memory in bytes, as in Table 3 of the paper.

    Static and dynamic bytes are those at the peak of live bytes.
    """
    is_static = (served == Served.PLANNED) | (served == Served.DISPLACED)
    live = requests.live_bytes(requests.size)
    static = requests.live_bytes(np.where(is_static, requests.size, 0))
    peak = int(live.argmax())
    return {
        "static": int(static[peak]),
        "dynamic": int(live[peak] - static[peak]),
        "pool": pool_bytes,
        # Peak of the cache's reserved bytes.
        "fallback": reserved_peak - pool_bytes,
        "displaced_requests": int((served == Served.DISPLACED).sum()),
    }


def _place_bytes(requests: RequestSequence) -> IntColumn:
    return -(-requests.size // PLACE_BYTES) * PLACE_BYTES
