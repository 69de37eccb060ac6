"""Pictures and pages of a comparison, which installed packages draw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, ParamSpec, TypeVar

from planners.compare.comparison import Comparison, ComparisonRow
from planners.entry_points import foreign, load_entry
from planners.errors import GaplessError, MissingDependencyError
from planners.model.bounds import Bound
from planners.model.plan import Result
from planners.model.problem import Problem
from planners.online.online_run import OnlineRun
from planners.processes import standard_output
from planners.text.plain_text import shown
from planners.waits.waits_frontier import WaitsPoint

ENTRY_POINT_GROUP = "gapless.plots"

Draw = Callable[[Problem, Result, Sequence[Bound], Path], None]
Kind = TypeVar("Kind")
Parameters = ParamSpec("Parameters")
Drawn = TypeVar("Drawn")


@dataclass(frozen=True)
class Plot:
    """A kind of picture, which an installed package offers in the group ``gapless.plots``.

    ``suffixes`` are the endings that the file of a picture may have. ``require_drawable`` raises
    ``GaplessError`` for a problem that has no such picture.
    """

    draw: Draw
    suffixes: tuple[str, ...]
    require_drawable: Callable[[Problem], None]


@dataclass(frozen=True)
class OnlinePlot:
    """A kind of picture of online allocators whose results have series."""

    draw: Callable[[OnlineRun, Path], None]
    suffixes: tuple[str, ...]


@dataclass(frozen=True)
class WaitsPlot:
    """A kind of picture of a frontier of bytes against waits."""

    draw: Callable[[Sequence[WaitsPoint], Path], None]
    suffixes: tuple[str, ...]


@dataclass(frozen=True)
class ComparisonPage:
    """A page of a whole comparison; ``write`` takes its rows in the order in which they appear."""

    write: Callable[[Comparison, Sequence[ComparisonRow], OnlineRun | None, Path], None]
    suffixes: tuple[str, ...]
    require_drawable: Callable[[Problem], None]
    # The extra of Gapless that installs what it needs; `plot` for a kind without this field.
    extra: ClassVar[str] = "report"


def find_plot(name: str, kind: type[Kind]) -> Kind:
    """Return the installed picture or page with a name and a kind."""
    # Imported here because most runs draw nothing.
    from importlib.metadata import entry_points

    extra = getattr(kind, "extra", "plot")
    for entry in entry_points(group=ENTRY_POINT_GROUP, name=name):
        what = f"plot {name}"
        try:
            with foreign(what):
                plot = load_entry(entry)
        except GaplessError as error:
            cause = error if isinstance(error, ImportError) else error.__cause__
            if isinstance(cause, ImportError):
                raise MissingDependencyError(f"{what}: {cause}", extra) from None
            raise
        if not isinstance(plot, kind):
            raise GaplessError(f"{what}: a {kind.__name__} is needed, found {shown(plot)}")
        theirs: Any = plot
        calls = {each: call for each, call in vars(plot).items() if callable(call)}
        found: Kind = replace(theirs, **{k: _guarded(what, call) for k, call in calls.items()})
        return found
    raise MissingDependencyError(f"plot {name}: no installed package draws it", extra)


def _guarded(what: str, call: Callable[Parameters, Drawn]) -> Callable[Parameters, Drawn]:
    """Return a call of a package that may print, and may fail in any way."""

    def guarded(*args: Parameters.args, **options: Parameters.kwargs) -> Drawn:
        with foreign(what), standard_output.kept_for_the_answer():
            return call(*args, **options)

    return guarded
