"""Two traces side by side: aligned sequences, and the requests that differ."""

from __future__ import annotations

from difflib import SequenceMatcher
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_runtime.replay import app
from instances.extract.record.requests.request_recorder import RequestRecorder
from instances.formats.recorded_trace import write_recorded_trace
from instances.traces import alignment
from instances.traces.alignment import differing_ranges
from instances.traces.allocation_trace import AllocationTrace, Phase
from instances.traces.trace_differences import (
    IterationFigures,
    RequestDifference,
    find_differences,
    iteration_figures,
    live_after_allocations,
)
from planners.errors import InstanceError
from tests.command_line import require_one_line, run_command


def two_iterations(*forward: int, backward: int = 7) -> AllocationTrace:
    """A weight of 100 bytes; then twice the forward blocks, all freed in the backward pass."""
    recorder = RequestRecorder()
    recorder.allocate(100)
    for _ in range(2):
        recorder.begin(Phase.FORWARD)
        blocks = [recorder.allocate(size) for size in forward]
        recorder.begin(Phase.BACKWARD)
        for block in blocks:
            recorder.free(block)
        recorder.free(recorder.allocate(backward))
        recorder.begin(Phase.OPTIMIZER)
    return recorder.trace("run", {})


def test_figures_of_an_iteration() -> None:
    figures = iteration_figures(two_iterations(10, 20, 30))
    assert figures == IterationFigures(
        requests=4, requested_bytes=67, peak_bytes=160, persistent_bytes=100
    )


def test_bytes_alive_after_each_allocation() -> None:
    # In the second iteration as in the first: nothing but the weight outlives it.
    for iteration in (0, 1):
        live = live_after_allocations(two_iterations(10, 20, 30), iteration)
        assert live.tolist() == [110, 130, 160, 107]


def test_equal_traces_do_not_differ() -> None:
    assert not find_differences(two_iterations(10, 20), two_iterations(10, 20))


def test_only_differing_requests_are_listed() -> None:
    recorded = two_iterations(1, 20, 3, 4, 5, 40, 6)
    other = two_iterations(1, 21, 3, 4, 5, 6, 50, backward=8)
    assert find_differences(recorded, other) == {
        RequestDifference(Phase.FORWARD, (20,), (21,)): 1,
        RequestDifference(Phase.FORWARD, (40,), ()): 1,
        RequestDifference(Phase.FORWARD, (), (50,)): 1,
        RequestDifference(Phase.BACKWARD, (7,), (8,)): 1,
    }


def test_iterations_of_other_phases_are_refused() -> None:
    recorder = RequestRecorder()
    recorder.begin(Phase.FORWARD)
    with pytest.raises(InstanceError, match="found 3 and 1 phases"):
        find_differences(two_iterations(10), recorder.trace("run", {}))


def test_the_command_prints_both_tables(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in ("a.npz", "b.npz")]
    write_recorded_trace(two_iterations(10, 2000), Path(paths[0]))
    write_recorded_trace(two_iterations(10, 2000, backward=8), Path(paths[1]))
    result = run_command(app, paths[0], "--against", paths[1])
    assert result.exit_code == 0, result.stderr
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "| bytes allocated | 2,017 | 2,018 | 1.000496 |" in lines
    assert "| backward | 1 | 7 | 8 |" in lines
    assert "differ at 1 of 3, by at most 1." in result.stdout
    assert "No request differs." in run_command(app, paths[0], "--against", paths[0]).stdout


def test_a_missing_iteration_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    write_recorded_trace(two_iterations(10), path)
    result = run_command(app, path, "--against", path, "--iteration", "5")
    require_one_line(result, "error: iteration 5: the trace has the iterations 0 to 1")


Ranges = list[tuple[range, range]]
SIZES = st.lists(st.integers(0, 3), max_size=14)


def by_difflib(ours: list[int], theirs: list[int]) -> Ranges:
    opcodes = SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes()
    return [(range(a, b), range(c, d)) for what, a, b, c, d in opcodes if what != "equal"]


def require_alignment(ours: list[int], theirs: list[int], ranges: Ranges) -> None:
    """All between two stretches that differ is the same, and at least one entry long."""
    at_ends = [(range(0), range(0)), *ranges, (range(len(ours), -1), range(len(theirs), -1))]
    for index, ((here, there), (next_here, next_there)) in enumerate(pairwise(at_ends)):
        between = ours[here.stop : next_here.start]
        assert between == theirs[there.stop : next_there.start]
        assert between or index in (0, len(ranges))
    assert all(here or there for here, there in ranges)


@given(SIZES, SIZES)
def test_short_sequences_are_compared_as_difflib_does(ours: list[int], theirs: list[int]) -> None:
    assert differing_ranges(ours, theirs) == by_difflib(ours, theirs)


@settings(max_examples=500)
@given(SIZES, SIZES, st.sampled_from([(3, 2), (2,), (1,), ()]), st.sampled_from([0, 4, 20]))
def test_cuts_keep_what_is_the_same(
    ours: list[int], theirs: list[int], widths: tuple[int, ...], most: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alignment, "WIDTHS", widths)
        patch.setattr(alignment, "MOST_COMPARED", most)
        require_alignment(ours, theirs, differing_ranges(ours, theirs))


def test_every_difference_of_a_long_run_is_found() -> None:
    # Layers of the same sizes, and in every third of them one request is another.
    rng = Random(1)
    layer = [rng.randrange(1, 30) for _ in range(40)]
    ours = layer * 600
    theirs = list(ours)
    changed = range(25, len(ours), 120)
    for index in changed:
        theirs[index] += 1000
    expected = [(range(index, index + 1), range(index, index + 1)) for index in changed]
    assert differing_ranges(ours, theirs) == expected


def test_long_runs_of_few_sizes_are_aligned() -> None:
    ours, theirs = [7, *[1, 2] * 300, 8], [7, *[1, 3] * 250, 8]
    assert differing_ranges(ours, ours + ours) == [(range(602, 602), range(602, 1204))]
    require_alignment(ours, theirs, differing_ranges(ours, theirs))
