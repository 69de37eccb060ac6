"""Gapless' own branch and bound: proves optima on one thread, deterministically."""

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
from planners.exact.least_cost.least_cost import with_least_cost_proven
from planners.exact.model_limits import require_time
from planners.exact.plan_exactly import SearchOutcome, WarmStart, plan_exactly
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
# The orders that are tried in turn, most significant key first. Some place the tensors of the
# fullest sections, or the largest in time or area, at the bottom. The others sweep over time,
# forwards or backwards. The fullness of a section has two senses, which differ once a part is split
# off: the unplaced bytes in it ("left"), and these above the placed ones ("total"). The length of a
# tensor has two senses too: its lifetime in steps separates tensors that cross equally many
# sections.
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
# Note: the schedule. The number of nodes that an order needs is heavy-tailed. It varies between the
# orders of one problem, and for one order between a problem and a slightly perturbed copy: from two
# nodes a tensor to more than any budget. No order wins on all problems. So each order gets its turn
# before any order has spent much. Every round has a multiple of the nodes of the round before, so
# that an order that is close to a proof is not delayed by those that are lost. Of first turns of
# 250 to 4,000 nodes, 1,000 cost least on files and their perturbed copies; docs/searches.md
# names the problems on which the orders were chosen. The first question is the user's own, whose
# answer ends the search. Capacities between the goal and the best plan come after: with as many
# nodes if the least peak is wanted, since each answer is then worth something, otherwise with
# fewer.
FIRST_NODES = 1000
GROWTH = 4
WAY_SHARE = 4
# A lot is a short question of LOT_NODES nodes: a few early choices decide whether a plan is near,
# so the search gives up a lot soon. A longer round spends as many nodes on lots near the bound as
# on its orders. It spends as many again on lots with random orders, and on lots that leave their
# order at random in WANDERS of a thousand nodes. The numbers are guesses.
WANDERS = (30, 0, 100, 15, 30)
LOT_NODES = 3000
# A search without limits ends eventually; this keeps its node budget within 63 bits.
MOST_NODES = 1 << 60


@dataclass(frozen=True)
class Rules:
    """The rules that prune; each can be switched off for an ablation. See the notes in the core."""

    # Skip an offset if another tensor fits entirely below it.
    dominance: bool = True
    # A tensor that was not placed at its lowest offset must lie above a neighbour that blocks it.
    passed_over: bool = True
    # A tensor that cannot be lowest in a section lies above the end of one that can.
    lowest: bool = True
    # Among identical tensors, the first is placed first.
    identical: bool = True
    # Parts that share no section are searched separately.
    split: bool = True
    # States that were refuted once are not searched again.
    memory: bool = True
    # With chains: if one of two unsafe tensors cannot lie below the other, it lies above.
    forced: bool = True

    def for_core(self) -> _core.CanonicalRules:
        """Return the same rules in the core's form."""
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

    A node limit counts nodes, and a run with it repeats exactly. See :class:`Rules` for the others.
    With prices of reuse, the search for a plan within the capacity answers which pairs can be kept
    apart; Note [Implicit hitting sets] in ``least_cost.py`` describes the rest.
    """
    rules = Rules(dominance, passed_over, lowest, identical, split, memory, forced)

    def decide(asked: Problem, limits: Budget) -> Findings:
        return search(asked, limits, rules=rules)

    found = decide(problem, budget)
    return with_least_cost_proven(problem, budget, found, decide) if problem.cost_decides else found


def search(
    problem: Problem,
    budget: Budget,
    known: Plan | None = None,
    rules: Rules | None = None,
) -> Findings:
    """Search for a plan better than the best known one, or for a proof that there is none."""
    return plan_exactly(
        problem,
        budget,
        NAME,
        lambda start: _Search(problem, start, budget, rules or Rules()).outcome(),
        known,
    )


class Resumable:
    """The search for one problem, which continues when it is called again.

    Its proofs are kept, and no question is asked twice. Other problems, such as windows of this
    one, are searched from the beginning.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._search: _Search | None = None

    def __call__(self, problem: Problem, budget: Budget, known: Plan | None) -> Findings:
        """Search until the budget is spent."""
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
    """The knowledge about one part, in units: no plan is below ``least``, and one has ``most``."""

    part: Component
    least: int
    most: int
    heads: IntColumn
    questions: Iterator[_Question]
    # The question that the node limit cut short; a resumed search asks it again.
    cut_short: _Question | None = None

    def next_question(self) -> _Question:
        question, self.cut_short = self.cut_short or next(self.questions), None
        return question


@dataclass(frozen=True)
class _Question:
    order: tuple[str, ...]
    nodes: int
    wander: int
    # The share of the distance from the best plan, or the capacity, to the bound by which the asked
    # capacity is lower.
    aim: float


def _spread(exponent: int) -> Iterator[float]:
    """Yield powers of numbers that are spread evenly between 0 and 1 at any time."""
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
        # A block of size 0 is in no part, but its pin counts for the bound.
        alone = int((self.scaled.lowest + self.scaled.size).max(initial=0))
        self.least = max(
            self.scaled.up(start.bound.bytes), alone, *(part.least for part in self.parts)
        )

    def resume(self, start: WarmStart, budget: Budget) -> None:
        """Prepare to continue, from a plan that may be better by now."""
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
        """Return a part with the heads and the peak that it has in the start plan.

        The plan's offsets are rounded down to units. The plan stays valid: sizes, pins and the
        remaining alignments are whole units, so no two blocks begin to overlap.
        """
        heads = known[part.blocks]
        return _Part(part, part.least, self._end(part, heads), heads, self._questions(part))

    def _target(self) -> int | None:
        capacity = self.problem.capacity
        return None if capacity is None else self.scaled.down(capacity)

    def _goal(self) -> int:
        """Return the peak at which a part's plan is good enough."""
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
        """Yield questions round by round; see the note on the schedule."""
        chains = isinstance(part.search, _core.DisjunctiveSearch)
        # The search with chains has one order of its own, which the blame changes.
        orders = (("blame",),) if chains else ORDERS
        nodes, wanders = FIRST_NODES, cycle(WANDERS)
        aims, near = _spread(3), _spread(2)
        while True:
            for order in orders:
                yield _Question(order, nodes, 0, 1.0)
            # A lower capacity is not always harder, because it also prunes more. So all orders are
            # tried.
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
        """Ask a question; if the answer moves an end of the range, ask again from there."""
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
            # At the goal, every order has already been asked with at least as many nodes.
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
        require_time(self.budget)
        nodes = question.nodes
        if self.budget.node_limit is not None:
            nodes = min(nodes, self.budget.node_limit - self._nodes())
            if nodes <= 0:
                raise _NodesSpentError
        seconds = self.budget.remaining_seconds()
        if isinstance(search, _core.DisjunctiveSearch):
            return search.decide(capacity, nodes, self.rules.forced, False, seconds)
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
        """Return the nodes since the search began or was resumed."""
        return self.counters["nodes"] - self.nodes_before

    def _end(self, part: Component, heads: IntColumn) -> int:
        return int((heads + self.scaled.size[part.blocks]).max())

    def _plan(self) -> Plan | None:
        """Return the plan of the parts, or None if it is no better than the start plan."""
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
