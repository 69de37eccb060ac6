"""What the tests of the command line share: instances, and a registry that is put back."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from planners.compare.__main__ import app
from planners.files.problem_file import write_problem
from planners.model.problem import Problem
from tests.command_line import run_command

compare = partial(run_command, app)


@pytest.fixture(autouse=True)
def _own_registry(own_registry: None) -> None:
    """Restore the registry after a test whose plugins register planners."""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Return the file of five tensors whose lifetime bound, 10, greedy-size-first misses not."""
    problem = Problem(
        size=[6, 4, 4, 2, 3], start=[0, 1, 3, 4, 5], end=[3, 4, 6, 6, 7], name="small"
    )
    return written(problem, tmp_path / "small.json")


@pytest.fixture
def pinned(tmp_path: Path) -> Path:
    """Return the file of a problem that some planners do not support."""
    problem = Problem(size=[6, 4], start=[0, 0], end=[2, 2], pinned={0: 0}, name="pinned")
    return written(problem, tmp_path / "pinned.json")


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """Return the file of a problem without tensors."""
    return written(Problem(size=[], start=[], end=[], name="empty"), tmp_path / "empty.json")


@pytest.fixture
def plugin(tmp_path: Path) -> Callable[[str], Path]:
    """Write a plugin file with the given code below the imports."""

    def write(code: str) -> Path:
        path = tmp_path / f"plugin_{len(list(tmp_path.glob('plugin_*')))}.py"
        path.write_text(f"import sys, time\nimport planners\n\n{code}\n", encoding="utf-8")
        return path

    return write


def written(problem: Problem, path: Path) -> Path:
    write_problem(problem, path)
    return path
