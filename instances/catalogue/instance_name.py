"""The name of an instance: that of its file, so that no two of a folder share one."""

from __future__ import annotations

from pathlib import Path

from planners.model.problem import Problem

SUFFIXES = (".json.gz", ".json")


def name_of_file(path: Path) -> str | None:
    """Return the name of the instance in a file; None where the suffix is of no instance."""
    for suffix in SUFFIXES:
        if path.name.endswith(suffix):
            return path.name.removesuffix(suffix)
    return None


def named_after(problem: Problem, path: Path) -> Problem:
    """Return a problem under the name of the file that it is written to."""
    name = name_of_file(path) or path.name
    return problem.with_name("".join(char if char.isprintable() else "?" for char in name))
