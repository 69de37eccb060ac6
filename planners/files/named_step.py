"""A training step by its name: an instance file, or a program that an installed package traces."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from planners.entry_points import load_group
from planners.errors import InstanceError
from planners.files.formats import read_problem
from planners.model.problem import Problem

# Each entry point takes a name, values of the program's parameters (``batch=16`` each) and the
# words of its command line. It returns the problem of a step, or None for a name of something else.
ENTRY_POINT_GROUP = "gapless.steps"


def read_step(name: Path, settings: Sequence[str] = (), words: Sequence[str] = ()) -> Problem:
    """Return the problem of a step; a program of the user's own is traced for it."""
    for _, trace in load_group(ENTRY_POINT_GROUP, "reader of steps"):
        found: Problem | None = trace(str(name), settings, words)
        if found is not None:
            return found
    for what in (*(f"--set {setting}" for setting in settings), *words):
        raise InstanceError(f"{what}: FILE.py:FUNCTION or FILE.py is needed with it, found {name}")
    return read_problem(name)
