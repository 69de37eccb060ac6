"""A step as a problem: who may share bytes, by brute force over an endless repetition of it."""

from __future__ import annotations

from itertools import combinations
from random import Random

import numpy as np
import pytest
from numpy.typing import NDArray

from gpu_runtime._core import BLOCK_ALIGNMENT, PlannedAllocator, SimulatedMemory
from gpu_runtime.allocator.step_problem import StreamProblem, block_bytes, step_problems
from gpu_runtime.allocator.step_profile import NEVER, StreamProfile
from planners import Plan
from planners.referee.naive import find_violation
from tests.gpu_runtime.allocator.synthetic_training import PAGE_BYTES


def stream_profile(
    freed: list[int], stream: int = 0, sizes: list[int] | None = None
) -> StreamProfile:
    size = sizes or [100 * (k + 1) for k in range(len(freed))]
    return StreamProfile(stream, np.array(size, dtype=np.int64), np.array(freed, dtype=np.int64))


def problem_of(freed: list[int]) -> StreamProblem:
    (found,) = step_problems((stream_profile(freed),), "a step")
    return found


def in_use(freed: list[int], request: int) -> set[int]:
    """Times of three repetitions at which a request of any of them is in use.

    Time ``t`` is the moment at which request ``t`` is made, when what ends at ``t`` is gone.
    """
    n = len(freed)
    end = freed[request] if freed[request] <= n else freed[request] - 1
    return {t for step in range(-2, 5) for t in range(step * n + request, step * n + end)} & set(
        range(3 * n)
    )


def may_share(found: StreamProblem, one: int, other: int) -> bool:
    """Ask the referee: the two lie at the same offset, everybody else far away."""
    size = found.problem.size
    offsets = np.cumsum(size) + size.max()
    offsets[[one, other]] = 0
    offsets = -(-offsets // BLOCK_ALIGNMENT) * BLOCK_ALIGNMENT
    return find_violation(found.problem, Plan.of(found.problem, offsets)) is None


def random_ends(rng: Random, requests: int) -> list[int]:
    freed = []
    for k in range(requests):
        within = rng.randint(k + 1, requests)
        # Before its own turn in the next step, or at any time of it.
        wrapped = requests + 1 + rng.randint(0, k if rng.random() < 0.8 else requests)
        freed.append(rng.choice([within, within, wrapped, wrapped, NEVER]))
    return freed


@pytest.mark.parametrize("seed", range(120))
def test_who_may_share_bytes_by_an_endless_repetition(seed: int) -> None:
    rng = Random(seed)
    n = rng.randint(1, 9)
    freed = random_ends(rng, n)
    found = problem_of(freed)
    planned = [k for k in range(n) if freed[k] <= n or freed[k] - n - 1 <= k]
    assert found.planned.tolist() == planned
    assert found.problem.size.tolist() == [-(-100 * (k + 1) // 512) * 512 for k in planned]
    for one, other in combinations(range(len(planned)), 2):
        apart = in_use(freed, planned[one]).isdisjoint(in_use(freed, planned[other]))
        assert may_share(found, one, other) == apart, (planned[one], planned[other], freed)


N = 5


def test_a_request_that_is_freed_within_the_step() -> None:
    found = problem_of([2, 2, 4, N, N])
    assert found.problem.start.tolist() == [0, 1, 2, 3, 4]
    assert found.problem.end.tolist() == [2, 2, 4, 5, 5]
    assert len(found.problem.gaps) == 0


@pytest.mark.parametrize(
    ("freed_before", "start", "gap"),
    [
        (0, 3, None),  # at the beginning: nothing is asked for before
        (1, 0, [1, 3]),
        (2, 0, [2, 3]),
        (3, 0, None),  # right before its successor is made: never without a place
    ],
)
def test_a_request_that_is_freed_in_the_next_step(
    freed_before: int, start: int, gap: list[int] | None
) -> None:
    found = problem_of([1, 2, 3, N + 1 + freed_before, N])
    assert found.planned.tolist() == [0, 1, 2, 3, 4]
    assert (found.problem.start[3], found.problem.end[3]) == (start, N)
    assert found.problem.gaps.tolist() == ([] if gap is None else [[3, *gap]])


@pytest.mark.parametrize("end", [N + 1 + 4, N + 1 + N, NEVER])
def test_a_request_that_outlives_its_successor_has_no_place(end: int) -> None:
    found = problem_of([1, 2, 3, end, N])
    assert found.planned.tolist() == [0, 1, 2, 4]
    assert find_violation(found.problem, Plan.of(found.problem, [0, 0, 0, 0])) is None


def test_the_first_request_wraps_around() -> None:
    assert problem_of([3, 2]).planned.tolist() == [0, 1]
    both = problem_of([3, 2])
    assert (both.problem.start[0], both.problem.end[0]) == (0, 2)
    assert len(both.problem.gaps) == 0
    assert problem_of([4, 2]).planned.tolist() == [1]


def test_a_step_in_which_nothing_has_a_place() -> None:
    found = problem_of([NEVER, NEVER])
    assert found.problem.tensor_count == 0
    plan = found.stream_plan(Plan.of(found.problem, []), 0)
    allocator = PlannedAllocator(SimulatedMemory(PAGE_BYTES, 1 << 20))
    allocator.adopt_plan([plan], 0)
    assert allocator.figures().arena_bytes == 0


def test_each_stream_is_a_problem_of_its_own() -> None:
    profile = (stream_profile([1, 2], 3), stream_profile([NEVER, 2], 8, [7, 513]))
    three, eight = step_problems(profile, "a step")
    assert three.problem.origin == {"source": "requests of a training step", "stream": 3}
    assert eight.problem.origin["stream"] == 8
    assert three.problem.name == "a step"
    assert three.planned.tolist() == [0, 1]
    assert eight.planned.tolist() == [1]
    assert eight.problem.size.tolist() == [1024]
    assert set(eight.problem.alignment.tolist()) == {BLOCK_ALIGNMENT}


def test_blocks_are_whole() -> None:
    sizes = np.array([1, 511, 512, 513, (1 << 40) + 1])
    assert block_bytes(sizes).tolist() == [512, 512, 512, 1024, (1 << 40) + 512]


@pytest.mark.parametrize("seed", range(40))
def test_frees_are_listed_before_the_request_that_they_come_before(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns: list[NDArray[np.int32]] = []
    monkeypatch.setattr(
        "gpu_runtime.allocator.step_problem.StreamPlan",
        lambda _stream, _size, _offset, begin, freed: columns.extend([begin, freed]),
    )
    rng = Random(seed)
    n = rng.randint(1, 12)
    freed = random_ends(rng, n)
    found = problem_of(freed)
    found.stream_plan(Plan.of(found.problem, [0] * found.problem.tensor_count), 0)
    begin, listed = columns
    planned = set(found.planned.tolist())
    before = [end if end <= n else end - n - 1 for end in freed]
    assert [set(listed[begin[k] : begin[k + 1]].tolist()) for k in range(n)] == [
        {request for request in planned if before[request] == k} for k in range(n)
    ]
