"""The requests of a run, served by planned memory."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

from gpu_runtime._core import PlannedAllocator, PlannedReplay
from gpu_runtime.allocator.step_planner import StepPlanner
from gpu_runtime.replaying.online_replay import (
    core_log,
    return_memory,
    serve_rows,
    too_few_marks,
)
from gpu_runtime.replaying.replay_device import open_replay_device
from planners.model.budget import Budget
from planners.model.online_result import OnlineResult, OnlineTerms
from planners.model.request_sequence import RequestSequence
from planners.registry import choose_one

STEP_LABEL = 0


def replay_planned(
    requests: RequestSequence,
    terms: OnlineTerms,
    planner: str,
    time_limit: float,
    share_of_moves: float = math.inf,
) -> OnlineResult:
    """Make the requests to planned memory, each iteration a step.

    Plans are made between two steps while the run waits; planning time does not count as the
    allocator's. Requests before the first marked iteration are outside of steps.
    """
    chosen = choose_one(planner)
    device = open_replay_device(requests, terms)
    allocator = PlannedAllocator(device.served, share_of_moves=share_of_moves)
    step_planner = StepPlanner(
        allocator, chosen, Budget(time_limit_seconds=time_limit), planning="between"
    )
    replay = PlannedReplay(
        core_log(requests),
        allocator,
        device.memory,
        device.logged,
        terms.has_series,
        device.stamps,
    )
    in_step = False

    def end_step() -> None:
        if in_step:
            step_planner.end_step(completed=replay.out_of_memory_row < 0)

    def begin_step() -> None:
        nonlocal in_step
        end_step()
        step_planner.begin_step(STEP_LABEL)
        in_step = True

    with warnings.catch_warnings():
        # The figures of a replay show if a plan is not worth it, so a warning is not needed.
        warnings.simplefilter("ignore", RuntimeWarning)
        begins = sorted(set(requests.iteration_rows.tolist()) - {requests.row_count})
        result = serve_rows(requests, device, allocator, replay, begins, begin_step, end_step)
    allocator.adopt([], 0)
    return_memory(requests, device, allocator, result)
    why = "" if step_planner.plans else _why_unplanned(requests, step_planner)
    return replace(result, not_done=why)


def _why_unplanned(requests: RequestSequence, step_planner: StepPlanner) -> str:
    why = step_planner.reason or "no step repeated"
    return too_few_marks(requests) or f"planned nothing: {why}"
