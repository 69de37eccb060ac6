"""A mixed-integer linear program as flat columns and rows, before any solver sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from planners.model.problem import Scalar

INFINITE = float("inf")


@dataclass
class MilpModel:
    """Minimise ``objective`` over columns between bounds, subject to rows between bounds."""

    # One entry a column.
    lower: list[int] = field(default_factory=list)
    upper: list[int] = field(default_factory=list)
    integer: list[bool] = field(default_factory=list)
    # Column to minimise, None for any solution.
    objective: int | None = None
    # One entry a row.
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
        """Add a row of ``(column, factor)`` terms; a column may come more than once."""
        total: dict[int, int] = {}
        for column, factor in terms:
            total[column] = total.get(column, 0) + factor
        self.row_columns.append(list(total))
        self.row_factors.append(list(total.values()))
        self.row_lower.append(lower)
        self.row_upper.append(upper)


@dataclass(frozen=True)
class MilpAnswer:
    """What a solver says, in its floating-point numbers."""

    # One entry a column; None without a solution.
    values: Sequence[float] | None = None
    # Whether the solver claims that there is no solution.
    infeasible: bool = False
    # What the solver claims that no solution stays below; minus infinity for nothing.
    bound: float = -INFINITE
    # Why the solver did not finish; empty if it did.
    reason: str = ""
    # Counters of the search.
    statistics: Mapping[str, Scalar] = field(default_factory=dict)
    # Whether Ctrl-C ended it.
    interrupted: bool = False
    # Moments of ``time.perf_counter``, and the objective that the solver had reached then.
    incumbents: Sequence[tuple[float, float]] = ()
