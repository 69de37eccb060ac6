"""The largest value of a parameter for ever larger values of another: batch by sequence, say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gpu_runtime.fitting.largest_value import MOST, LargestValues, search_largest
from gpu_runtime.fitting.rank_fit import RankFit
from gpu_runtime.fitting.traced_program import Changes
from planners.errors import InstanceError


@dataclass
class Frontier:
    """For each value of a parameter, the values of the other that were tried."""

    # The parameter that is doubled, and the one whose largest value is searched.
    doubled: str
    searched: str
    found: dict[int, LargestValues] = field(default_factory=dict)
    # Why no larger value was tried; empty if nothing fits then.
    ended: str = ""

    @property
    def labels(self) -> list[str]:
        return next((one.labels for one in self.found.values() if one.tried), [])

    @property
    def fits(self) -> bool:
        """Return True if some value fits, so that there is something to draw."""
        return any(one.largest(label) for one in self.found.values() for label in self.labels)


def search_frontier(
    frontier: Frontier,
    found: LargestValues,
    labels: Sequence[str],
    start: tuple[int, int],
    check: Callable[[Changes], RankFit],
) -> None:
    """Double one parameter until no value of the other fits under any label.

    `found` has what is known for the first value. `start` has the first value and, for the other
    parameter, the value with which the search begins. A larger value that
    cannot be traced, of a model with so many positions say, is the last.
    """
    value, guess = start
    while True:
        frontier.found[value] = found
        try:
            search_largest(found, labels, guess, check, {frontier.doubled: value})
        except InstanceError as error:
            if value == start[0]:
                raise
            frontier.ended = str(error)
            return
        largest = max(found.largest(label) or 0 for label in labels)
        if not largest or 2 * value > MOST:
            return
        # If each is twice as large, about half as many fit.
        value, guess = 2 * value, max(largest // 2, 1)
        found = LargestValues(found.parameter, found.room, found.by)
