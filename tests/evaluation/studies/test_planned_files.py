"""What the planner that times the command line on a file says of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from instances.synthetic import training_trace
from planners import Status, run
from planners.registry import get


@pytest.mark.parametrize("file", ["json", "csv"])
def test_a_process_of_its_own_reads_plans_and_judges(
    file: str, bring: Callable[[str], None]
) -> None:
    bring("planned_files")
    problem = training_trace(60, seed=1)
    result = run(problem, get("planned-file", file=file))
    assert result.status in (Status.OPTIMAL, Status.FEASIBLE)
    assert result.peak == run(problem, "greedy-size-first").peak
    assert result.statistics["file"] == file
    assert float(result.statistics["processor_seconds"]) > 0
    # Python and NumPy alone are more.
    assert int(result.statistics["peak_resident_bytes"]) > 1 << 24
    assert int(result.statistics["file_bytes"]) > 500
