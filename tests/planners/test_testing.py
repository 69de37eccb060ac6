"""The tests that a third party runs over a planner of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

STACKED = """
import numpy as np
import planners
from planners.registry import UnsupportedProblemError

@planners.register("mine", summary="stacks all tensors")
def mine(problem, budget):
    is_pinned = (problem.pinned >= 0).any()
    if is_pinned or problem.contiguous or problem.alignment.max(initial=1) > 1:
        raise UnsupportedProblemError("no pins, chains or alignments")
    offsets = np.cumsum(problem.size) - problem.size
    return planners.Plan(offsets[::STEP], int(problem.size.sum()))
"""


def outcome_of(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "planners.testing", "-n", "0", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, *options], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(("step", "status"), [("1", 0), ("-1", 1)])
def test_a_planner_of_a_third_party(tmp_path: Path, step: str, status: int) -> None:
    (tmp_path / "mine.py").write_text(STACKED.replace("STEP", step))
    found = outcome_of(tmp_path, "--plugin", "mine.py", "--planner", "mine")
    assert found.returncode == status, found.stdout
    assert "mine: no pins, chains or alignments (" in found.stdout
    assert ("test_random_problems[mine-Safety.PAIRS]" in found.stdout) == (status != 0)


def test_a_name_that_nobody_registered(tmp_path: Path) -> None:
    found = outcome_of(tmp_path, "--planner", "nobody")
    assert found.returncode == pytest.ExitCode.USAGE_ERROR
    assert "no planner is called 'nobody'; known: auto, " in found.stderr
