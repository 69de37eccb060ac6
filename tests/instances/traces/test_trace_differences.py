"""Two traces side by side: figures of an iteration, and what differs."""

from __future__ import annotations

from pathlib import Path

import pytest

from instances.extract.eager.request_recorder import RequestRecorder
from instances.formats.recorded_trace import write_recorded_trace
from instances.traces.allocation_trace import AllocationTrace, Phase
from instances.traces.compare import app
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


def test_what_differs_stands_alone() -> None:
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
    result = run_command(app, *paths)
    assert result.exit_code == 0, result.stderr
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "| bytes allocated | 2,017 | 2,018 | 1.000496 |" in lines
    assert "| backward | 1 | 7 | 8 |" in lines
    assert "differ at 1 of 3, by at most 1." in result.stdout
    assert "No request differs." in run_command(app, paths[0], paths[0]).stdout


def test_a_missing_iteration_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    write_recorded_trace(two_iterations(10), path)
    result = run_command(app, path, path, "--iteration", "5")
    require_one_line(result, "error: iteration 5: the trace has the iterations 0 to 1")
