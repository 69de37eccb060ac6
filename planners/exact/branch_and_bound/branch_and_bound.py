"""Branch and bound of our own: proves minima on one thread, the same way every time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import count, cycle, islice
from random import Random

import numpy as np

from planners import _core
from planners.exact.branch_and_bound.components import Component, components_of
from planners.exact.common_unit import ScaledBlocks, scale_blocks
from planners.exact.plan_exactly import plan_exactly
from planners.exact.search_outcome import SearchOutcome
from planners.exact.warm_start import WarmStart
from planners.model.budget import Budget
from planners.model.columns import IntColumn
from planners.model.findings import Findings
from planners.model.plan import Plan
from planners.model.problem import Problem, Scalar
from planners.registry import register

NAME = "branch-and-bound"

KEYS = {
    "total": _core.SearchKey.SECTION_TOTAL,
    "left": _core.SearchKey.SECTION_LEFT,
    "sections": _core.SearchKey.SECTION_COUNT,
    "lifetime": _core.SearchKey.LIFETIME,
    "area": _core.SearchKey.AREA,
    "size": _core.SearchKey.SIZE,
    "early start": _core.SearchKey.EARLIEST_START,
    "late start": _core.SearchKey.LATEST_START,
    "late end": _core.SearchKey.LATEST_END,
    "early end": _core.SearchKey.EARLIEST_END,
}
# The orders that are tried in turn, most significant key first. Some put what crosses the fullest
# sections, or is largest in time or area, at the bottom; the others sweep over time, forwards and
# backwards. How full a section is has two senses, which differ once a part is split off: the bytes
# left in it, and these above what is placed. So has length: the steps of a lifetime set tensors
# apart that cross equally many sections.
ORDERS: tuple[tuple[str, ...], ...] = (
    ("left", "lifetime", "area"),
    ("late end", "area", "left"),
    ("late end", "lifetime", "area"),
    ("early start", "early end", "size"),
    ("total", "lifetime", "area"),
    ("area", "left", "lifetime"),
    ("early start", "area", "left"),
    ("early start", "lifetime", "area"),
    ("late end", "late start", "size"),
    ("left", "sections", "area"),
    ("left", "late end", "late start"),
    ("left", "early start", "early end"),
    ("left", "size", "lifetime"),
    ("lifetime", "left", "area"),
)
# What the search with chains decides first, in turn.
BRANCHINGS = {
    "least room": _core.Branching.LEAST_ROOM,
    "largest overlap": _core.Branching.LARGEST,
}
# Note: the schedule. How many nodes an order needs is heavy-tailed: on one problem it varies from
# one order to the next, and on one order between a problem and its slightly perturbed copy, from
# two nodes a tensor to more than anybody has. No order wins on all problems, so what counts is to
# give each its turn before any has spent much; every round has a multiple of the nodes of the round
# before, so that an order that is near is not kept waiting for those that are lost. Of first turns
# of 250 to 4,000 nodes, 1,000 cost least on files and their perturbed copies; what the orders were
# chosen on is told in docs/branch-and-bound.md. First is always what was asked, where one answer
# ends everything. Capacities on the way there come after: as many nodes where the smallest peak is
# wanted and each answer is worth something, otherwise few.
FIRST_NODES = 1000
GROWTH = 4
WAY_SHARE = 4
# Longer rounds also draw lots that are given up soon, since a few early choices decide whether a
# plan is near: as many nodes as the orders for an order at a capacity near the bound, and as many
# for orders that are random, or are left at random in so many of a thousand nodes.
WANDERS = (30, 0, 100, 15, 30)
LOT_NODES = 3000
# A search without limits ends in the end; this keeps a budget of nodes within 63 bits.
MOST_NODES = 1 << 60


@dataclass(frozen=True)
class Rules:
    """Which rules prune; all do, but for an ablation. See the notes in the core."""

    # Skip an offset that leaves room for another tensor entirely below.
    dominance: bool = True
    # What was not placed at its lowest offset must lie above a neighbour that blocks it.
    passed_over: bool = True
    # What cannot be lowest in a section lies above the end of something that can.
    lowest: bool = True
    # Of tensors that look the same, the first is placed first.
    identical: bool = True
    # Parts that share no section are searched one by one.
    split: bool = True
    # States that were refuted once are not searched again.
    memory: bool = True
    # With chains: of two unsafe tensors, one that cannot lie below the other lies above.
    forced: bool = True

    def for_core(self) -> _core.CanonicalRules:
        """Return the same rules as the core takes them."""
        rules = _core.CanonicalRules()
        for rule in fields(self):
            if hasattr(rules, rule.name):
                setattr(rules, rule.name, getattr(self, rule.name))
        return rules


@register(
    NAME,
    summary="Exact search in a canonical order with a portfolio of orders; proves its optimum",
    source="Gapless; after the canonical solutions of Moffitt 2023",
)
def branch_and_bound(
    problem: Problem,
    budget: Budget,
    dominance: bool = True,
    passed_over: bool = True,
    lowest: bool = True,
    identical: bool = True,
    split: bool = True,
    memory: bool = True,
    forced: bool = True,
) -> Findings:
    """Search between the best bound and the best greedy plan until both meet.

    Parameters
    ----------
    problem
        Any, of some thousand tensors.
    budget
        All of it but ``threads``; ``node_limit`` counts nodes, and a run with it repeats exactly.
    dominance, passed_over, lowest, identical, split, memory, forced
        See :class:`Rules`.

    Returns
    -------
    Findings
        ``statistics``: ``nodes``, ``questions``, the ``order`` of the best plan, and how often
        which rule pruned.
    """
    rules = Rules(dominance, passed_over, lowest, identical, split, memory, forced)
    return search(problem, budget, rules=rules)


def search(
    problem: Problem,
    budget: Budget,
    known: Plan | None = None,
    rules: Rules | None = None,
) -> Findings:
    """Search for a better plan than the best known, or for a proof that there is none."""
    return plan_exactly(
        problem,
        budget,
        NAME,
        lambda start: _Search(problem, start, budget, rules or Rules()).outcome(),
        known,
    )


class Resumable:
    """The search for one problem, which goes on where it stopped when it is called again.

    What it proved is kept, and no question is asked twice. Other problems, such as windows of this
    one, are searched afresh.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._search: _Search | None = None

    def __call__(self, problem: Problem, budget: Budget, known: Plan | None) -> Findings:
        """Search as far as a budget reaches."""
        if problem is not self._problem:
            return search(problem, budget, known)
        return plan_exactly(
            problem, budget, NAME, lambda start: self._resume(start, budget).outcome(), known
        )

    def _resume(self, start: WarmStart, budget: Budget) -> _Search:
        if self._search is None:
            self._search = _Search(self._problem, start, budget, Rules())
        else:
            self._search.resume(start, budget)
        return self._search


@dataclass
class _Part:
    """What is known of one part, in units: no plan below ``least``, one with ``most``."""

    part: Component
    least: int
    most: int
    heads: IntColumn
    questions: Iterator[_Question]
    # The question that the node limit cut short; it is asked again if the search goes on.
    cut_short: _Question | None = None

    def next_question(self) -> _Question:
        question, self.cut_short = self.cut_short or next(self.questions), None
        return question


@dataclass(frozen=True)
class _Question:
    order: tuple[str, ...]
    nodes: int
    wander: int
    # How far below the best plan, or the capacity, to ask, as a share of the way to the bound.
    aim: float


def _spread(exponent: int) -> Iterator[float]:
    """Yield powers of numbers that are at any time spread evenly between 0 and 1."""
    golden = (5**0.5 - 1) / 2
    yield from ((step * golden % 1) ** exponent for step in count(1))


class _NodesSpentError(Exception):
    """The node limit of the budget is spent."""


class _Search:
    def __init__(self, problem: Problem, start: WarmStart, budget: Budget, rules: Rules) -> None:
        self.problem, self.start, self.budget = problem, start, budget
        self.rules = rules
        self.core_rules = rules.for_core()
        self.counters: Counter[str] = Counter()
        self.nodes_before = 0
        self.order = ""
        self.random = Random(budget.seed)
        self.scaled: ScaledBlocks = scale_blocks(problem)
        known = self.scaled.heads(problem, start.plan)
        self.parts = [
            self._known(part, known) for part in components_of(problem, self.scaled, budget)
        ]
        # A block without bytes is in no part, but its pin counts.
        alone = int((self.scaled.lowest + self.scaled.size).max(initial=0))
        self.least = max(
            self.scaled.up(start.bound.bytes), alone, *(part.least for part in self.parts)
        )

    def resume(self, start: WarmStart, budget: Budget) -> None:
        """Get ready to go on, from a plan that may be better by now."""
        self.start, self.budget = start, budget
        self.nodes_before = self.counters["nodes"]
        known = self.scaled.heads(self.problem, start.plan)
        for part in self.parts:
            heads = known[part.part.blocks]
            end = self._end(part.part, heads)
            if end < part.most:
                part.heads, part.most = heads, end

    def outcome(self) -> SearchOutcome:
        reason, interrupted = "", False
        try:
            self._search()
        except (_NodesSpentError, TimeoutError):
            reason = "the budget was spent before the proof"
        except KeyboardInterrupt:
            reason, interrupted = "interrupted", True
        target = self._target()
        return SearchOutcome(
            self._plan(),
            exhausted=target is not None and self.least > target,
            lower_bound=self.least * self.scaled.unit,
            reason=reason,
            statistics=self._statistics(),
            interrupted=interrupted,
        )

    def _known(self, part: Component, known: IntColumn) -> _Part:
        """Return a part with what the plan at the start says of it.

        Its offsets are rounded down to units, which keeps the plan valid: sizes, pins and the
        alignments that are left are whole units, so what lay above still does.
        """
        heads = known[part.blocks]
        return _Part(part, part.least, self._end(part, heads), heads, self._questions(part))

    def _target(self) -> int | None:
        capacity = self.problem.capacity
        return None if capacity is None else self.scaled.down(capacity)

    def _goal(self) -> int:
        """Return where a plan of a part is as good as is wanted."""
        target = self._target()
        return self.least if target is None else target

    def _search(self) -> None:
        while True:
            target = self._target()
            if target is not None and self.least > target:
                return
            open_parts = [part for part in self.parts if part.most > self._goal()]
            if not open_parts:
                return
            for part in open_parts:
                question = part.next_question()
                try:
                    self._pursue(part, question)
                except _NodesSpentError:
                    part.cut_short = question
                    raise

    def _questions(self, part: Component) -> Iterator[_Question]:
        """Yield what to ask, round by round; see the note on the schedule."""
        chains = isinstance(part.search, _core.DisjunctiveSearch)
        orders = tuple((name,) for name in BRANCHINGS) if chains else ORDERS
        nodes, wanders = FIRST_NODES, cycle(WANDERS)
        aims, near = _spread(3), _spread(2)
        while True:
            for order in orders:
                yield _Question(order, nodes, 0, 1.0)
            # A lower capacity is not always harder: it also prunes more. So all are tried.
            on_the_way = nodes if self.problem.capacity is None else nodes // WAY_SHARE
            for order in orders:
                yield _Question(order, on_the_way, 0, next(aims))
            lots = 0 if chains or nodes <= LOT_NODES else len(orders) * nodes // LOT_NODES
            for order, aim in zip(cycle(orders), islice(near, lots), strict=False):
                yield _Question(order, LOT_NODES, 0, 1 - aim)
            for lot in range(lots):
                order = (
                    tuple(self.random.sample(sorted(KEYS), 3))
                    if lot % 2
                    else self.random.choice(orders)
                )
                aim = next(aims) if lot % 3 else 1.0
                yield _Question(order, LOT_NODES, next(wanders), aim)
            nodes = min(GROWTH * nodes, MOST_NODES)

    def _pursue(self, part: _Part, question: _Question) -> None:
        """Ask; where an answer on the way to the bound moves an end, ask the same from there."""
        target = self._target()
        if question.aim == 1:
            self._ask(part, question, self._goal())
            return
        ends = None
        while ends != (part.most, self.least):
            ends = part.most, self.least
            highest = part.most if target is None else min(part.most, target + 1)
            way = highest - self.least
            capacity = highest - max(1, int(way * question.aim))
            # At the goal every order has been asked as it is, with no fewer nodes.
            plain = question.wander == 0 and question.order in ORDERS
            known = plain and capacity == self._goal()
            if way <= 0 or known or (target is not None and part.most <= target):
                return
            self._ask(part, question, capacity)

    def _ask(self, part: _Part, question: _Question, capacity: int) -> None:
        decision = self._decide(part.part.search, question, capacity)
        for counter in COUNTERS:
            self.counters[counter] += getattr(decision.counters, counter)
        self.counters["questions"] += 1
        spent = self.budget.node_limit is not None and self._nodes() >= self.budget.node_limit
        if decision.verdict == _core.Verdict.NODE_LIMIT and spent:
            raise _NodesSpentError
        if decision.verdict == _core.Verdict.FITS:
            part.heads = np.array(decision.offsets, dtype=np.int64)
            part.most = self._end(part.part, part.heads)
            self.order = ", ".join(question.order)
            better = self._plan()
            if better is not None:
                self.start.offer(better)
        elif decision.verdict == _core.Verdict.REFUTED:
            part.least = capacity + 1
            self.least = max(self.least, part.least)

    def _decide(
        self,
        search: _core.CanonicalSearch | _core.DisjunctiveSearch,
        question: _Question,
        capacity: int,
    ) -> _core.Decision:
        nodes = question.nodes
        if self.budget.node_limit is not None:
            nodes = min(nodes, self.budget.node_limit - self._nodes())
            if nodes <= 0:
                raise _NodesSpentError
        seconds = self.budget.remaining_seconds()
        if isinstance(search, _core.DisjunctiveSearch):
            return search.decide(
                capacity,
                nodes,
                BRANCHINGS[question.order[0]],
                self.rules.lowest,
                self.rules.forced,
                seconds,
            )
        seed = (self.budget.seed + self.counters["questions"]) % (1 << 31)
        return search.decide(
            capacity,
            [KEYS[key] for key in question.order],
            nodes,
            question.wander,
            seed,
            self.core_rules,
            seconds,
        )

    def _nodes(self) -> int:
        """Return the nodes since the search began or went on."""
        return self.counters["nodes"] - self.nodes_before

    def _end(self, part: Component, heads: IntColumn) -> int:
        return int((heads + self.scaled.size[part.blocks]).max())

    def _plan(self) -> Plan | None:
        """Return the plan of the parts, None where it is no better than the start's."""
        if self.scaled.unit * max((p.most for p in self.parts), default=0) >= self.start.plan.peak:
            return None
        heads = self.scaled.lowest.copy()
        for part in self.parts:
            heads[part.part.blocks] = part.heads
        return self.scaled.plan(self.problem, heads)

    def _statistics(self) -> dict[str, Scalar]:
        statistics: dict[str, Scalar] = {name: self.counters[name] for name in COUNTERS}
        statistics["nodes"] = self._nodes()
        statistics["questions"] = self.counters["questions"]
        statistics["parts"] = len(self.parts)
        statistics["order"] = self.order
        return statistics


COUNTERS = (
    "nodes",
    "by_section",
    "by_passed_over",
    "by_dominance",
    "by_memory",
    "dominated",
    "identical",
    "raised",
    "splits",
)
