"""STWeaver over the requests of a run: causal, or as a bound that knows the run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpu_runtime._core import DeviceMemory, Stweaver, StweaverProfile
from gpu_runtime.replaying.causal_profile import ANY_SIZE, profile_iteration
from gpu_runtime.replaying.online_replay import replay_online, too_few_marks
from gpu_runtime.replaying.static_profile import NO_TENSOR, StaticProfile, profile_static_requests
from planners.dynamic.idle_space import idle_space
from planners.errors import InvalidPlanError
from planners.judged_run import run
from planners.model.budget import Budget
from planners.model.columns import IntColumn
from planners.model.online_result import OnlineResult, OnlineTerms
from planners.model.plan import Plan
from planners.model.problem import Problem, Scalar
from planners.model.request_sequence import NOWHERE, RequestSequence

# The reasons that a table gives if a replay differs from STWeaver.
NO_MODULES = (
    "took each phase for one module: a recording with modules is needed, found none; see STWeaver "
    "in docs/replaying.md"
)
FORESIGHT = (
    "is a bound with foresight, up to best fit, and not STWeaver: it knows from the run that it "
    "serves which requests are static and when dynamic ones end"
)
NOTHING_STATIC = "planned nothing: no request of the first iteration comes again in the second"


def replay_stweaver(
    requests: RequestSequence,
    terms: OnlineTerms,
    planner: str,
    time_limit: float,
    *,
    reuse: bool = True,
    static: bool = True,
    foresight: bool = False,
) -> OnlineResult:
    """Replay a run by STWeaver, which profiled the first two iterations before the run.

    The pool is there before the first request. Without `reuse` dynamic requests go to the caching
    allocator. Without `static`, or without two marked iterations, all requests do. With `foresight`
    the profile is of the served run, which makes the result a bound, up to what best fit misses.

    Source: Huang et al. 2026, sections 6 and 8.4.
    """
    served = None
    if static:
        make = _foresighted if foresight else _profiled
        served = make(requests, planner, time_limit, reuse=reuse)
    if served is None:
        why = (too_few_marks(requests) or NOTHING_STATIC) if static else ""
        return replace(_serve(requests, terms, None), not_done=why)
    result = _serve(requests, terms, served)
    has_modules = requests.module.max(initial=NOWHERE) != NOWHERE
    has_dynamic = result.statistics["cached_requests"] or result.statistics["reused_requests"]
    if foresight:
        return replace(result, not_done=FORESIGHT)
    return replace(result, not_done=NO_MODULES if has_dynamic and not has_modules else "")


def plan_static(static: Problem, planner: str, time_limit: float) -> Plan:
    """Return a plan of static requests; ``InvalidPlanError`` if the planner finds none."""
    result = run(static, planner, Budget(time_limit_seconds=time_limit))
    if result.plan is None:
        raise InvalidPlanError(
            f"planner {planner}: a plan of the static requests is needed, found none: "
            f"{result.status}, {result.reason}"
        )
    return result.plan


# A profile, and the visit of each row.
_Served = tuple[StweaverProfile, IntColumn]


def _profiled(
    requests: RequestSequence, planner: str, time_limit: float, *, reuse: bool
) -> _Served | None:
    profile = profile_iteration(requests)
    if profile is None:
        return None
    plan = plan_static(profile.static, planner, time_limit)
    return profile.planned(plan, reuse=reuse), profile.visits_of_rows(requests)


def _foresighted(
    requests: RequestSequence, planner: str, time_limit: float, *, reuse: bool
) -> _Served | None:
    """Return a profile in which each request of the run is a visit of its own."""
    profile = profile_static_requests(requests)
    if profile is None:
        return None
    plan = plan_static(profile.static, planner, time_limit)
    made = _foreseen(requests, profile, plan, reuse=reuse)
    return made, requests.of_rows(np.arange(requests.request_count))


def _foreseen(
    requests: RequestSequence, profile: StaticProfile, plan: Plan, *, reuse: bool
) -> StweaverProfile:
    static = np.flatnonzero(profile.tensor != NO_TENSOR)
    dynamic = np.flatnonzero(profile.span[:, 0] < profile.span[:, 1])[: None if reuse else 0]
    space, begins, intervals = idle_space(profile.static, plan, profile.span[dynamic])
    return StweaverProfile(
        plan.peak,
        int(requests.stream[static[0]]),
        requests.request_count,
        np.column_stack([static, requests.size[static], plan.offsets[profile.tensor[static]]]),
        np.column_stack([dynamic, np.full(len(dynamic), ANY_SIZE), space]),
        begins.tolist(),
        intervals,
    )


def _serve(requests: RequestSequence, terms: OnlineTerms, served: _Served | None) -> OnlineResult:
    made: list[Stweaver] = []

    def make(memory: DeviceMemory) -> Stweaver:
        allocator = Stweaver(memory)
        if served is not None:
            allocator.adopt(served[0])
        made.append(allocator)
        return allocator

    # Without a profile this is the caching allocator, whose segments may lie as recorded.
    dictated, visits = ("plain", None) if served is None else ("", served[1])
    result = replay_online(requests, terms, make, dictated, visits)
    return replace(result, statistics=_composition(made[0], result))


def _composition(allocator: Stweaver, result: OnlineResult) -> dict[str, Scalar]:
    """Return the composition of STWeaver's memory in bytes, as in Table 3 of the paper.

    Static and dynamic bytes are those at the peak of live bytes.
    """
    counts, pool_bytes = allocator.counts, allocator.pool_bytes
    return {
        "static": counts.static_at_peak,
        "dynamic": result.requested_peak - counts.static_at_peak,
        "pool": pool_bytes,
        # Peak of the cache's reserved bytes.
        "fallback": max(0, result.reserved_peak - pool_bytes),
        **result.statistics,
    }
