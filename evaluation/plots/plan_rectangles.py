"""The rectangles of a plan: where each tensor lies, and from which step to which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planners.errors import GaplessError
from planners.model.bounds import Bound
from planners.model.columns import IntColumn
from planners.model.plan import Plan, Result
from planners.model.problem import Problem, Safety


@dataclass(frozen=True)
class PlanRectangles:
    """One row a rectangle: its tensor, its steps and its bytes."""

    tensor: IntColumn
    start: IntColumn
    end: IntColumn
    low: IntColumn
    high: IntColumn

    def corners(self, chosen: NDArray[np.bool_], scale: int) -> NDArray[np.float64]:
        """Return corners of the chosen rectangles, shape (rectangles, 4, 2)."""
        left, right = self.start[chosen], self.end[chosen]
        low, high = self.low[chosen] / scale, self.high[chosen] / scale
        across = np.stack([left, right, right, left], axis=1)
        up = np.stack([low, low, high, high], axis=1)
        return np.stack([across, up], axis=2)


def rectangles_of(problem: Problem, plan: Plan) -> PlanRectangles:
    """Return the rectangles of every tensor that has bytes: one, or one a part around its gaps."""
    tensor, start, end = problem.segments().T
    shown = problem.size[tensor] > 0
    tensor, start, end = tensor[shown], start[shown], end[shown]
    low = plan.offsets[tensor]
    return PlanRectangles(tensor, start, end, low, low + problem.size[tensor])


def require_time(problem: Problem) -> None:
    """Refuse a problem whose tensors have no lifetimes."""
    if problem.safety is Safety.PAIRS:
        raise GaplessError(
            f"plot of {problem.name}: lifetimes are needed, found explicit unsafe pairs, which "
            "have no time"
        )


def best_bound(results: Sequence[Result], bounds: Sequence[Bound]) -> tuple[str, int]:
    """Return the best of the bounds and of what results prove: its name, and bytes."""
    known = [(bound.bytes, bound.name) for bound in bounds]
    known += [(result.lower_bound, result.certificate) for result in results if result.certificate]
    # Of equal bounds the first is named.
    size, name = max(known, key=lambda entry: entry[0], default=(0, "no"))
    return name, size
