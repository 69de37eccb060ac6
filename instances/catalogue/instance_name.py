"""The name of an instance: that of its file, so that no two of a folder share one."""

from __future__ import annotations

from pathlib import Path

from planners.files.problem_file import SUFFIXES
from planners.model.problem import Problem


def name_of_file(path: Path) -> str | None:
    """Return the name of the instance in a file; None where the suffix is of no instance."""
    for suffix in SUFFIXES:
        if path.name.endswith(suffix):
            return path.name.removesuffix(suffix)
    return None


def file_label(path: Path) -> str:
    """Return the name of the instance in a file, and of any other file its own."""
    return name_of_file(path) or path.name


def named_after(problem: Problem, path: Path) -> Problem:
    """Return a problem under the name of the file that it is written to."""
    printable = (char if char.isprintable() else "?" for char in file_label(path))
    return problem.with_name("".join(printable))
