"""The requests of a run, served by planned memory."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

from gpu_runtime._core import PlannedAllocator, PlannedReplay
from gpu_runtime.allocator.step_planner import StepPlanner
from gpu_runtime.replaying.online_replay import (
    core_log,
    replay_result,
    return_memory,
    too_few_marks,
)
from gpu_runtime.replaying.replay_device import ReplayDevice, open_replay_device
from planners.errors import DeviceError
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
    made = PlannedReplay(
        core_log(requests),
        allocator,
        device.memory,
        device.logged,
        terms.has_series,
        device.stamps,
    )
    try:
        with warnings.catch_warnings():
            # The figures of a replay show if a plan is not worth it, so a warning is not needed.
            warnings.simplefilter("ignore", RuntimeWarning)
            stepping_seconds, last_seconds, begun = _serve(requests, device, made, step_planner)
        outcome = made.end()
    except OSError as error:
        raise DeviceError(f"device {terms.device}: {error}") from None
    result = replay_result(device, allocator, outcome, last_seconds, begun)
    allocator.adopt([], 0)
    return_memory(requests, device, allocator, result)
    device.require_apart(requests)
    return replace(
        result,
        seconds=result.seconds + stepping_seconds,
        not_done="" if step_planner.plans else _why_unplanned(requests, step_planner),
    )


def _why_unplanned(requests: RequestSequence, step_planner: StepPlanner) -> str:
    why = step_planner.reason or "no step repeated"
    return too_few_marks(requests) or f"planned nothing: {why}"


def _serve(
    requests: RequestSequence, device: ReplayDevice, made: PlannedReplay, step_planner: StepPlanner
) -> tuple[float, float, list[Mapping[str, int]]]:
    """Serve all rows, or the rows until the device has no memory.

    Returns the seconds of device calls between steps, the seconds of the last iteration's rows, and
    the device calls before each iteration.
    """
    begins = sorted({row for row in requests.iteration_rows.tolist() if row < requests.row_count})
    stepping = early = 0.0
    made.run_to(begins[0] if begins else requests.row_count)
    in_step = False
    begun: list[Mapping[str, int]] = []
    for _, behind in pairwise([*begins, requests.row_count]):
        if made.out_of_memory_row >= 0:
            break
        # Planning takes no time of the allocator; adopting a plan calls the device.
        taken = device.total_seconds
        begun.append(device.calls)
        if in_step:
            step_planner.end_step(completed=True)
        step_planner.begin_step(STEP_LABEL)
        in_step = True
        stepping += device.total_seconds - taken
        early = made.seconds
        made.run_to(behind)
    if in_step:
        step_planner.end_step(completed=made.out_of_memory_row < 0)
    return stepping, made.seconds - early, begun
