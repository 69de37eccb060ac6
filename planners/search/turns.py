"""Searches that take turns: what each of them has, and how they are asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from itertools import count
from typing import ClassVar

from planners.greedy.portfolio import Portfolio
from planners.model.budget import Budget
from planners.model.findings import Findings
from planners.model.plan import Plan
from planners.model.problem import Problem, Scalar
from planners.search.incumbent import Incumbent

ExactSearch = Callable[[Problem, Budget, Plan | None], Findings]
"""Minimises, or with a capacity says whether a plan fits; takes the best plan so far. Its bound is
a proof. ``statistics`` may hold ``nodes``."""

PieceSearch = Callable[[Problem, Budget], Findings]
"""Looks for a plan within the capacity, and answers with the best one where it finds none."""

# Why several searches are not asked.
NO_SECTIONS = "lifetimes do not decide what is unsafe"

# Every turn is twice as long as the one before, up to a point: what is hard for one of the searches
# is often easy for another.
MOST_DOUBLINGS = 20
# Rounds in a row in which no search makes an attempt, after which none will. Nests try another
# share in each of four rounds; the rest is a guess.
MOST_IDLE_ROUNDS = 8


@dataclass(frozen=True)
class Shared:
    """What the searches of one incumbent share."""

    incumbent: Incumbent
    portfolio: Portfolio
    exact: ExactSearch
    # Plans a piece of the problem as the whole is planned.
    plan_piece: PieceSearch
    # The name under which a search proves a bound.
    certificate: str


class Search(ABC):
    """One of the searches that take turns on an incumbent."""

    name: ClassVar[str]
    # Whether another seed leads to other plans, so that further threads run this search too.
    is_seeded: ClassVar[bool] = True

    def __init__(self, incumbent: Incumbent) -> None:
        self._incumbent = incumbent

    @classmethod
    def begin(cls, shared: Shared) -> Search:
        """Return the search, which has not had a turn."""
        return cls(shared.incumbent)

    @classmethod
    @abstractmethod
    def reason_against(cls, problem: Problem) -> str | None:
        """Return why this search is not asked for a problem; None where it is asked."""

    @abstractmethod
    def run(self, length: int) -> None:
        """Take a turn of so many units of work."""


class Turns:
    """Searches in the order of their turns: which are asked, and how many turns each had."""

    def __init__(self, searches: Sequence[type[Search]], without: Container[str]) -> None:
        self._searches = searches
        self._without = without
        self._asked: list[type[Search]] = []
        self._reasons: dict[str, str] = {}
        self._count = Counter[str]()

    def choose(self, problem: Problem) -> None:
        """Choose the searches that are asked for a problem."""
        for search in self._searches:
            is_off = search.name in self._without
            reason = "switched off" if is_off else search.reason_against(problem)
            self._reasons[search.name] = reason or "the search ended before its turn"
            if not reason:
                self._asked.append(search)

    def take(self, shared: Shared) -> None:
        """Run the searches in turns until the incumbent is over."""
        self._take(shared, self._asked, self._count)

    def take_beside(self, shared: Shared) -> None:
        """Do the same with those that find other plans with another seed, and count no turns."""
        self._take(shared, [search for search in self._asked if search.is_seeded], Counter())

    def _take(self, shared: Shared, asked: Sequence[type[Search]], turns_of: Counter[str]) -> None:
        incumbent, searches = shared.incumbent, [search.begin(shared) for search in asked]
        idle = 0
        for doublings in count():
            attempts = incumbent.count
            for search in searches:
                if incumbent.over:
                    return
                turns_of[search.name] += 1
                search.run(1 << min(doublings, MOST_DOUBLINGS))
            idle = 0 if incumbent.count > attempts else idle + 1
            if idle == MOST_IDLE_ROUNDS:
                return

    @property
    def statistics(self) -> dict[str, Scalar]:
        """How many turns each search had, and why others had none."""
        turns = ", ".join(f"{name} {number}" for name, number in self._count.items())
        reasons = self._reasons or {"all": "the search ended before the first turn"}
        none = (f"{name}: {why}" for name, why in reasons.items() if name not in self._count)
        return {"turns": turns or "none", "no_turn": "; ".join(none)}
