"""From a profiled step to problems, and from their plans to places in an arena."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_runtime._core import BLOCK_ALIGNMENT, ESCAPES, StreamPlan
from gpu_runtime.allocator.step_profile import StepProfile, StreamProfile
from planners.model.columns import IntColumn
from planners.model.plan import Plan
from planners.model.problem import Problem


@dataclass(frozen=True)
class StreamProblem:
    """The requests of one stream as a problem."""

    profile: StreamProfile
    # Index of the request of each tensor: those that end before their own turn in the next step.
    # The others outlive the step and have no place in an arena.
    planned: NDArray[np.intp]
    # A tensor a planned request, sizes rounded up to blocks, time counted in requests.
    problem: Problem

    def stream_plan(self, plan: Plan, arena_offset: int) -> StreamPlan:
        """Return a plan with offsets from the beginning of the arena, for the allocator.

        The stream's part of the arena begins at `arena_offset` bytes.
        """
        profile = self.profile
        offset = np.full(profile.request_count, ESCAPES, dtype=np.int64)
        offset[self.planned] = plan.offsets + arena_offset
        before = np.where(profile.freed_in_step, profile.freed, profile.freed_in_next)
        # An end of the step needs no entry: all that is in use then has outlived it.
        listed = self.planned[before[self.planned] < profile.request_count]
        order = listed[np.argsort(before[listed], kind="stable")]
        begin = np.searchsorted(before[order], np.arange(profile.request_count + 1))
        return StreamPlan(
            profile.stream, profile.size, offset, begin.astype(np.int32), order.astype(np.int32)
        )


def step_problems(profile: StepProfile, name: str) -> tuple[StreamProblem, ...]:
    """Return a problem for each stream of a step.

    Streams share no bytes: nothing that the allocator sees orders the work of one before that of
    another. A request that is freed in the next step needs memory at the beginning of the step and
    at its end, and none between: its lifetime has a gap.
    """
    return tuple(_stream_problem(stream, name) for stream in profile)


def _stream_problem(profile: StreamProfile, name: str) -> StreamProblem:
    count = profile.request_count
    index = np.arange(count)
    freed_in_next = profile.freed_in_next
    wraps = (freed_in_next >= 0) & (freed_in_next <= index)
    planned = np.flatnonzero(profile.freed_in_step | wraps)
    # Nothing is asked for between the beginning of a step and its first request.
    from_begin = wraps & (freed_in_next > 0)
    start = np.where(from_begin, 0, index)
    end = np.where(wraps, count, profile.freed)
    has_gap = np.flatnonzero(from_begin & (freed_in_next < index))
    tensor = np.searchsorted(planned, has_gap)
    gaps = np.stack([tensor, freed_in_next[has_gap], index[has_gap]], axis=1)
    problem = Problem(
        block_bytes(profile.size[planned]),
        start[planned],
        end[planned],
        gaps=gaps,
        alignment=np.full(len(planned), BLOCK_ALIGNMENT),
        name=name,
        origin={"source": "requests of a training step", "stream": profile.stream},
    )
    return StreamProblem(profile, planned, problem)


def block_bytes(size: IntColumn) -> IntColumn:
    """Return sizes in bytes rounded up to whole blocks of the allocator."""
    return -(-size // BLOCK_ALIGNMENT) * BLOCK_ALIGNMENT
