"""Problems of traces, and the bytes that were reserved for them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances.traces.allocation_trace import (
    SEGMENT_KINDS,
    AllocationTrace,
    Phase,
    iteration_phases,
    iteration_window,
)
from instances.traces.dynamic_requests import NO_PARTNER, find_dynamic_requests, find_partners
from instances.traces.trace_problem import (
    iteration_problem,
    peak_reserved,
    slice_problem,
    whole_problem,
)
from planners.errors import InstanceError
from planners.files.problem_file import problem_digest
from planners.files.recording_slice import RecordingSlice
from planners.model.reference import Reference, reference_of

FORWARD, BACKWARD, OPTIMIZER = (int(phase) for phase in Phase)


def three_iterations() -> AllocationTrace:
    """A weight; in each iteration a marker, an activation, a gradient; a state from the first on.

    event     0 | 1     2   3    4     5      6  | 7 ... 12 | 13 ... 18
    weight    [------------------------------------------------------->
    marker      .
    act               [--------------)
    grad                    [-----------------)      (freed in the next iteration)
    state                             [------------------------------->
    """
    size, alloc, freed = [1000], [0], [19]
    for begin in (1, 7, 13):
        size += [101, 10 + begin, 300]
        alloc += [begin, begin + 1, begin + 2]
        freed += [begin + 1, begin + 4, min(begin + 6, 19)]
        if begin == 1:
            size, alloc, freed = [*size, 50], [*alloc, begin + 5], [*freed, 19]
    marks = [event for begin in (1, 7, 13) for event in (begin, begin + 2, begin + 4)]
    return AllocationTrace(
        19, size, alloc, freed, freed,
        is_marker=[bytes_ == 101 for bytes_ in size],
        alloc_module=[0 if bytes_ in (300, 50) else -1 for bytes_ in size],
        free_module=[-1] * len(size),
        module_names=["block.experts"],
        mark_event=marks, mark_phase=[FORWARD, BACKWARD, OPTIMIZER] * 3,
        mark_microbatch=[0] * 9, mark_iteration=[0, 0, 0, 1, 1, 1, 2, 2, 2],
        name="three",
    )  # fmt: skip


def test_a_request_from_before_is_made_in_no_phase() -> None:
    trace = AllocationTrace(
        4, [7, 9], [0, 0], [4, 2], [4, 2], before=[True, False],
        mark_event=[0], mark_phase=[FORWARD], mark_microbatch=[0], mark_iteration=[0],
    )  # fmt: skip
    assert [requests.tolist() for requests in iteration_phases(trace, 0)] == [[1]]
    assert iteration_problem(trace, persistent=False).size.tolist() == [9]


def test_the_whole_trace_numbers_its_phases_throughout() -> None:
    problem = whole_problem(three_iterations())
    # weight; then marker, activation, gradient of each iteration; state.
    assert problem.phase_start is not None
    assert problem.phase_end is not None
    assert problem.phase_start.tolist() == [-1, 0, 0, 1, 2, 3, 3, 4, 6, 6, 7]
    assert problem.phase_end.tolist() == [9, 0, 2, 3, 9, 3, 5, 6, 6, 8, 9]
    assert problem.layer_start is not None
    assert problem.layer_start.tolist() == [-1, -1, -1, 0, 0, -1, -1, 0, -1, -1, 0]
    assert problem.dynamic is None
    unmarked = whole_problem(AllocationTrace(4, [7], [0], [4], [4], before=[True]))
    assert (unmarked.phase_start, unmarked.phase_end, unmarked.layer_start) == (None, None, None)


def test_the_whole_trace_without_persistent_tensors() -> None:
    trace = three_iterations()
    problem = whole_problem(trace, persistent=False, round_to=512)
    # The weight is gone; the state was made within the recording, and is not.
    assert problem.size.tolist() == (-(-trace.size[1:] // 512) * 512).tolist()
    assert (problem.origin["persistent"], problem.origin["round_to"]) == (False, 512)
    unmarked = AllocationTrace(4, [7, 9, 5], [0, 0, 1], [4, 3, 4], [4, 3, 4],
                               before=[True, True, False])  # fmt: skip
    assert whole_problem(unmarked, persistent=False).size.tolist() == [9, 5]


def test_a_problem_with_all_requests_has_the_reserved_bytes() -> None:
    trace = three_iterations()
    segments = [(0, 0, 0, 4000, 0), (9, 0, 0, 500, 0), (14, 1, 0, 500, 0)]
    with_segments = AllocationTrace(
        trace.event_count, trace.size, trace.alloc, trace.free_requested, trace.freed,
        mark_event=trace.mark_event, mark_phase=trace.mark_phase,
        mark_microbatch=trace.mark_microbatch, mark_iteration=trace.mark_iteration,
        segments=segments,
    )  # fmt: skip
    assert reference_of(whole_problem(with_segments)) == Reference("PyTorch", 4500, exact=True)
    for iteration, reserved in ((0, 4000), (1, 4500), (2, 4500)):
        reference = reference_of(iteration_problem(with_segments, iteration))
        assert reference == Reference("PyTorch", reserved, exact=True)
    assert reference_of(whole_problem(with_segments, persistent=False)) is None
    assert reference_of(iteration_problem(with_segments, persistent=False)) is None
    assert reference_of(whole_problem(trace)) is None


def test_a_slice_is_the_whole_or_an_iteration() -> None:
    trace = three_iterations()

    def digest(recording_slice: RecordingSlice) -> str:
        return problem_digest(slice_problem(trace, recording_slice))

    assert digest(RecordingSlice()) == problem_digest(whole_problem(trace))
    assert digest(RecordingSlice(persistent=False, round_to=8)) == problem_digest(
        whole_problem(trace, persistent=False, round_to=8)
    )
    assert digest(RecordingSlice(-1, persistent=False, round_to=8)) == problem_digest(
        iteration_problem(trace, 2, persistent=False, round_to=8)
    )
    dynamic = slice_problem(trace, RecordingSlice(0, dynamic_modules=("*experts",))).dynamic
    assert dynamic is not None
    assert dynamic.sum() == 2


def test_an_iteration_is_cut_out() -> None:
    trace = three_iterations()
    assert [iteration_window(trace, number) for number in (0, 1, 2)] == [(1, 7), (7, 13), (13, 19)]
    problem = iteration_problem(trace, 1)
    # weight, state, activation, gradient; the gradient of the first iteration was freed at 7.
    assert problem.size.tolist() == [1000, 50, 17, 300]
    assert problem.start.tolist() == [0, 0, 1, 2]
    assert problem.end.tolist() == [6, 6, 4, 6]
    assert problem.phase_start is not None
    assert problem.phase_end is not None
    assert problem.phase_start.tolist() == [-1, -1, 0, 1]
    assert problem.phase_end.tolist() == [3, 3, 2, 3]
    assert problem.origin["iteration"] == 1


@pytest.mark.parametrize(
    ("iteration", "options", "sizes"),
    [
        (-1, {"persistent": False}, [23, 300]),
        # What the first iteration makes for good is its own.
        (0, {"persistent": False}, [11, 300, 50]),
        (1, {"round_to": 512}, [1024, 512, 512, 512]),
    ],
)
def test_an_iteration_leaves_out_or_rounds(
    iteration: int, options: dict[str, Any], sizes: list[int]
) -> None:
    problem = iteration_problem(three_iterations(), iteration, **options)
    assert problem.size.tolist() == sizes


@pytest.mark.parametrize("iteration", [3, -4])
def test_refuses_a_missing_iteration(iteration: int) -> None:
    with pytest.raises(InstanceError, match="the trace has the iterations 0 to 2"):
        iteration_problem(three_iterations(), iteration)


def test_a_trace_without_marks_has_no_iterations() -> None:
    with pytest.raises(InstanceError, match="marks no phases"):
        iteration_problem(AllocationTrace(2, [1], [0], [1], [2]))


# --- dynamic requests ----------------------------------------------------------------------


def test_a_size_that_varies_is_dynamic_and_the_first_iteration_does_not_count() -> None:
    trace = three_iterations()
    problem = iteration_problem(trace, 1, persistent=False)
    assert problem.dynamic is not None
    assert problem.dynamic.tolist() == [True, False]
    assert not find_dynamic_requests(trace, 0).any()


def longest_common(ours: Sequence[int], theirs: Sequence[int]) -> int:
    """Length of the longest common subsequence, by the table."""
    best = np.zeros((len(ours) + 1, len(theirs) + 1), dtype=int)
    for i, j in itertools.product(range(len(ours)), range(len(theirs))):
        same = best[i, j] + 1 if ours[i] == theirs[j] else 0
        best[i + 1, j + 1] = max(same, best[i, j + 1], best[i + 1, j])
    return int(best[-1, -1])


@given(st.lists(st.integers(0, 4), max_size=12), st.lists(st.integers(0, 4), max_size=12))
def test_partners_are_a_common_subsequence(ours: list[int], theirs: list[int]) -> None:
    partners = find_partners(ours, theirs).tolist()
    kept = [(value, at) for value, at in zip(ours, partners, strict=True) if at != NO_PARTNER]
    assert all(theirs[at] == value for value, at in kept)
    assert all(first < second for (_, first), (_, second) in pairwise(kept))
    assert len(kept) <= longest_common(ours, theirs)


@given(st.lists(st.integers(0, 4), max_size=30))
def test_iterations_that_are_alike_pair_whole(sizes: list[int]) -> None:
    assert find_partners(sizes, sizes).tolist() == list(range(len(sizes)))


def test_static_requests_around_dynamic_ones_are_found() -> None:
    rng = random.Random(5)
    template = [(rng.randrange(100, 140), rng.random() < 0.1) for _ in range(600)]

    def run(seed: int) -> list[int]:
        sizes = random.Random(seed)
        made: list[int] = []
        for size, varies in template:
            made += [sizes.randrange(10**6, 10**9) for _ in range(sizes.randrange(1, 4))] * varies
            made.append(size)
        return made

    ours, theirs = run(1), run(2)
    paired = (find_partners(ours, theirs) != NO_PARTNER).tolist()
    static = [found for size, found in zip(ours, paired, strict=True) if size < 10**6]
    dynamic = [found for size, found in zip(ours, paired, strict=True) if size >= 10**6]
    assert all(static)
    assert not any(dynamic)


ALLOC, FREE, MAP, UNMAP = range(4)
MIB = 1 << 20


def trace_with(segments: list[tuple[int, int, int]], *, before: bool = False) -> AllocationTrace:
    """Return a trace of 20 events with segments (event, kind, bytes), one block in it."""
    return AllocationTrace(
        20, [1], [0], [20], [20], before=[before],
        segments=[(event, kind, 0, size, 0) for event, kind, size in segments],
    )  # fmt: skip


def reserved_at_each_event(segments: list[tuple[int, int, int]]) -> list[int]:
    sizes = [
        (event, size if SEGMENT_KINDS[kind] in ("segment_alloc", "segment_map") else -size)
        for event, kind, size in segments
    ]
    return [sum(size for event, size in sizes if event <= now) for now in range(20)]


def test_any_part_of_any_run() -> None:
    rng = random.Random(0)
    for _ in range(300):
        size, segments = 0, []
        for event in sorted(rng.sample(range(20), 8)):
            grows = size == 0 or rng.random() < 0.6
            amount = rng.randint(1, 9) if grows else rng.randint(1, size)
            kind = rng.choice([ALLOC, MAP] if grows else [FREE, UNMAP])
            size += amount if grows else -amount
            segments.append((event, kind, amount))
        begin = rng.randrange(20)
        end = rng.randint(begin + 1, 20)
        at = [0, *reserved_at_each_event(segments)]
        found = peak_reserved(trace_with(rng.sample(segments, len(segments))), begin, end)
        assert found == Reference("PyTorch", max(at[begin : end + 1]), exact=True)


def test_reserved_bytes_from_before_are_known_as_far_as_they_are_given_back() -> None:
    segments = [(1, ALLOC, 5), (2, FREE, 30), (3, ALLOC, 40)]
    assert peak_reserved(trace_with(segments), 0, 20) == Reference("PyTorch", 40, exact=False)
    assert peak_reserved(trace_with([(1, ALLOC, 5)], before=True), 0, 20) == (
        Reference("PyTorch", 5, exact=False)
    )


@pytest.mark.parametrize("sizes", [(-1, 5), (2**62, 2**62)])
def test_sizes_that_no_device_has(sizes: tuple[int, int]) -> None:
    trace = trace_with([(1, ALLOC, sizes[0]), (2, FREE, sizes[1])])
    with pytest.raises(InstanceError, match="field segments: sizes of at least 0"):
        peak_reserved(trace, 0, 20)
