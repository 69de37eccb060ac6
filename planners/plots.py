"""Pictures of a result, drawn by what installed packages offer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from planners.bounds import Bound
from planners.errors import MissingDependencyError
from planners.plan import Result
from planners.problem import Problem

ENTRY_POINT_GROUP = "gapless.plots"
INSTALL = "pip install -e '.[plot]'"

Draw = Callable[[Problem, Result, Sequence[Bound], Path], None]


def find_plot(name: str) -> Draw:
    """Return the function that draws a kind of picture.

    Parameters
    ----------
    name
        Entry point in the group ``gapless.plots``; such as ``layout``.

    Returns
    -------
    callable
        Takes problem, result, bounds and the path of the picture.

    Raises
    ------
    MissingDependencyError
        No installed package offers it, or what it needs is not installed.
    """
    # Imported here because most runs draw nothing.
    from importlib.metadata import entry_points

    for entry in entry_points(group=ENTRY_POINT_GROUP, name=name):
        try:
            draw: Draw = entry.load()
        except ImportError as error:
            raise MissingDependencyError(f"plot {name}: {error}; install with: {INSTALL}") from None
        return draw
    raise MissingDependencyError(
        f"plot {name}: no installed package draws it; install with: {INSTALL}"
    )
