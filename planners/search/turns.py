"""Searches that take turns: their interface, and the order in which they are called."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import ClassVar

from planners.exact.branch_and_bound.branch_and_bound import search as branch_and_bound
from planners.greedy.portfolio import Portfolio
from planners.model.budget import Budget
from planners.model.findings import Findings
from planners.model.incumbent import Incumbent
from planners.model.plan import Plan
from planners.model.problem import Problem, Scalar

ExactSearch = Callable[[Problem, Budget, Plan | None], Findings]
"""Minimises the peak, or with a capacity decides whether a plan fits. It takes the best plan so
far. Its bound is a proof. ``statistics`` may hold ``nodes``."""

PieceSearch = Callable[[Problem, Budget], Findings]
"""Looks for a plan within the capacity; if it finds none, it returns its best one."""

# The reason why several searches take no turn.
NO_SECTIONS = "lifetimes do not decide what is unsafe"

# Every turn is twice as long as the one before, up to this many doublings: a problem that is hard
# for one search is often easy for another. A guess.
MOST_DOUBLINGS = 20
# Consecutive rounds without an attempt after which no search will make one. Nests try another share
# in each of four rounds; the rest is a guess.
MOST_IDLE_ROUNDS = 8


@dataclass(frozen=True)
class Shared:
    """The objects that the searches of one incumbent share."""

    incumbent: Incumbent
    portfolio: Portfolio
    exact: ExactSearch = branch_and_bound
    # Plans a piece of the problem in the way in which the whole is planned.
    plan_piece: PieceSearch = branch_and_bound
    # The name under which an exact search proves a bound.
    certificate: str = "search"


class Search(ABC):
    """One of the searches that take turns on an incumbent."""

    name: ClassVar[str]

    def __init__(self, shared: Shared) -> None:
        self._shared, self._incumbent = shared, shared.incumbent

    @classmethod
    @abstractmethod
    def reason_against(cls, problem: Problem) -> str | None:
        """Return why this search takes no turns on a problem, or None if it does."""

    @abstractmethod
    def run(self, length: int) -> None:
        """Take a turn of ``length`` units of work."""


class Turns:
    """The searches in the order of their turns, and the number of turns of each."""

    def __init__(self, searches: Sequence[type[Search]], without: Container[str]) -> None:
        self._searches = searches
        self._without = without
        self._reasons: dict[str, str] = {}
        self._count = Counter[str]()

    def take(self, shared: Shared) -> None:
        """Run the searches that take turns on the problem until the incumbent is over."""
        incumbent = shared.incumbent
        searches = [search(shared) for search in list(self._chosen(incumbent.problem))]
        idle = 0
        for doublings in count():
            attempts = incumbent.count
            for search in searches:
                if incumbent.over:
                    return
                self._count[search.name] += 1
                search.run(1 << min(doublings, MOST_DOUBLINGS))
            idle = 0 if incumbent.count > attempts else idle + 1
            if idle == MOST_IDLE_ROUNDS:
                return

    def _chosen(self, problem: Problem) -> Iterator[type[Search]]:
        for search in self._searches:
            is_off = search.name in self._without
            reason = "switched off" if is_off else search.reason_against(problem)
            self._reasons[search.name] = reason or "the search ended before its turn"
            if not reason:
                yield search

    @property
    def statistics(self) -> dict[str, Scalar]:
        """The number of turns of each search, and why others had none."""
        turns = ", ".join(f"{name} {number}" for name, number in self._count.items())
        reasons = self._reasons or {"all": "the search ended before the first turn"}
        none = (f"{name}: {why}" for name, why in reasons.items() if name not in self._count)
        return {"turns": turns or "none", "no_turn": "; ".join(none)}
