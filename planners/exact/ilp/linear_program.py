"""A mixed-integer linear program as columns and rows, independent of the solver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from planners.model.problem import Scalar

INFINITE = float("inf")


@dataclass
class MilpModel:
    """Minimise ``objective`` over columns between bounds, subject to rows between bounds."""

    # One entry for each column.
    lower: list[int] = field(default_factory=list)
    upper: list[int] = field(default_factory=list)
    integer: list[bool] = field(default_factory=list)
    # Column to minimise; None if any solution will do.
    objective: int | None = None
    # One entry for each row.
    row_columns: list[list[int]] = field(default_factory=list)
    row_factors: list[list[int]] = field(default_factory=list)
    row_lower: list[float] = field(default_factory=list)
    row_upper: list[float] = field(default_factory=list)

    def column(self, lower: int, upper: int, *, integer: bool) -> int:
        """Add a column and return its index."""
        self.lower.append(lower)
        self.upper.append(upper)
        self.integer.append(integer)
        return len(self.lower) - 1

    def row(
        self,
        terms: Sequence[tuple[int, int]],
        lower: float = -INFINITE,
        upper: float = INFINITE,
    ) -> None:
        """Add a row of ``(column, factor)`` terms; a column may occur more than once."""
        total: dict[int, int] = {}
        for column, factor in terms:
            total[column] = total.get(column, 0) + factor
        self.row_columns.append(list(total))
        self.row_factors.append(list(total.values()))
        self.row_lower.append(lower)
        self.row_upper.append(upper)


@dataclass(frozen=True)
class MilpAnswer:
    """A solver's answer, in its floating-point numbers."""

    # One entry for each column; None without a solution.
    values: Sequence[float] | None = None
    # True if the solver claims that there is no solution.
    infeasible: bool = False
    # The lower bound that the solver claims; minus infinity if it claims none.
    bound: float = -INFINITE
    # Why the solver did not finish; empty if it did.
    reason: str = ""
    # Counters of the search.
    statistics: Mapping[str, Scalar] = field(default_factory=dict)
    # True if Ctrl-C ended the solver.
    interrupted: bool = False
    # Pairs of a ``time.perf_counter`` time and the objective reached by then.
    incumbents: Sequence[tuple[float, float]] = ()
