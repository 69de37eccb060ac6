"""Searches for an order of nodes with a lower peak: a bound, exact searches and local searches.

Note [The freedom of an order]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Rationale. The bounds of a problem hold for the order in which it lists its nodes. One part of this
order is forced. The rest is only the way in which the graph was written down.

Approach. These stay: the nodes, the stream of each, every arc from a producer to its consumers, and
every control arc; the tensors with their sizes, alignments, pins and chains. The order of the nodes
is free as far as arcs allow, and with it the order within each stream. The search minimises the
lower bound on the peak of the reordered problem: the lifetime bound for one stream, the heaviest
antichain for several. It never returns an order whose bound is above that of the given order.

Limits. The search knows no constraints but arcs. A tensor has one producer. If a later node writes
into the tensor, only control arcs keep earlier readers before that node. If nodes draw random
numbers, only control arcs keep the draws in order. So a graph is reordered only on request.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from planners import _core
from planners.errors import InstanceError
from planners.model.bounds import Bound
from planners.model.budget import Budget
from planners.model.columns import read_only
from planners.model.graph import Graph
from planners.model.problem import Problem
from planners.referee.order import check_order
from planners.reorder.reordering import Reordering, bound_of_order, in_order

DEFAULT_TIME_LIMIT_SECONDS = 10.0
# Certificates: the names of the proofs of a bound that no order stays below.
FORCED, DOWN_SETS, STREAM_ORDERS = "forced", "down-sets", "stream-orders"
# Moves that a walk over global orders, or over orders of streams, tries in a row. Then its best
# order and the budget are looked at.
MOVES_A_SLICE = 2000
FLOWS_A_SLICE = 20
# Share of the time for the bound `FORCED`, which needs no search.
SHARE_OF_FORCED = 0.2
# Each of these is a share of the time and nodes that are left when its part begins: the first walk,
# which gives a search that is ended early a result; the search over down-sets; and, with several
# streams, the second walk over global orders.
SHARE_OF_FIRST_WALK = 0.05
SHARE_OF_SETS = 0.3
SHARE_OF_WALK = 0.3
# The same for the search over all orders of several streams, which is for graphs of few nodes.
SHARE_OF_STREAM_ORDERS = 0.5
MOST_NODES_IN_ALL_ORDERS = 64
UNLIMITED = 1 << 62

Order = NDArray[np.int32]
_narrow = partial(np.ascontiguousarray, dtype=np.int32)


def reorder(problem: Problem, budget: Budget | None = None) -> Reordering:
    """Look for an order of a graph's nodes in which the bound on the peak is lower.

    Parameters
    ----------
    problem
        Must have a graph. Only its data and control arcs may constrain the order of its nodes.
    budget
        Ten seconds by default. With a node limit and no time limit, the same seed gives the same
        order. The node limit counts down-sets taken, moves tried, and flows of the search over
        orders of streams.

    Returns
    -------
    Reordering
        The best order found, which the referee has checked; the given order if none is better.

    Raises
    ------
    InstanceError
        The problem has no graph.
    """
    if problem.graph is None:
        raise InstanceError(
            f"reorder: a graph is needed, because its arcs say which orders are possible; found "
            f"{problem.safety.value}"
        )
    chosen = budget or Budget(time_limit_seconds=DEFAULT_TIME_LIMIT_SECONDS)
    started = time.perf_counter()
    search = _Search(problem, problem.graph, chosen.started())
    try:
        search.run()
    except KeyboardInterrupt:
        search.interrupted = True
    found = Reordering(
        given=problem,
        problem=search.best_problem,
        order=read_only(search.best.astype(np.int64)),
        bound=search.bound,
        given_bound=search.given_bound,
        least_bytes=min(search.least_bytes, search.bound.bytes),
        certificate=search.certificate,
        interrupted=search.interrupted,
        seconds=time.perf_counter() - started,
        seed=chosen.seed,
        statistics=dict(search.statistics),
    )
    check_order(problem, found.problem, found.order)
    return found


@dataclass
class _Share:
    """The time and the nodes that one part of the search may still use."""

    deadline: float
    nodes: int

    @property
    def seconds(self) -> float:
        return max(0.0, self.deadline - time.monotonic())

    @property
    def over(self) -> bool:
        return self.nodes <= 0 or self.seconds <= 0


class _Search:
    def __init__(self, problem: Problem, graph: Graph, budget: Budget) -> None:
        self._problem = problem
        self._graph = graph
        self._budget = budget
        self._nodes_left = UNLIMITED if budget.node_limit is None else budget.node_limit
        self._core = _core.OrderProblem(
            graph.node_count, _narrow(graph.producer), graph.consumer_offsets,
            _narrow(graph.consumer_nodes), _narrow(graph.control), problem.size,
        )  # fmt: skip
        self.given_bound = self.bound = bound_of_order(problem)
        self.best: Order = np.arange(graph.node_count, dtype=np.int32)
        self.best_problem = problem
        self.least_bytes = 0
        self.certificate = FORCED
        self.interrupted = False
        self.statistics = {"sets taken": 0, "moves": 0, "flows": 0}

    def run(self) -> None:
        """Search until the best order is proven, or the budget is spent."""
        given = self.best
        # The time of this bound grows with the square of the number of nodes. If it takes too long,
        # the search goes on without it.
        with suppress(TimeoutError):
            seconds = SHARE_OF_FORCED * self._budget.remaining_seconds()
            self._raise_least(self._core.forced_bytes(seconds), FORCED)
        starts = [given]
        try:
            for from_end in (False, True):
                starts.append(
                    self._core.order_by_growth(from_end, self._budget.remaining_seconds())
                )
        except TimeoutError:
            return
        for start in starts[1:]:
            self._offer(start)
        is_one_stream = self._problem.stream_count <= 1
        walks = [
            _core.OrderWalk(self._core, start, self.least_bytes, self._budget.seed + index)
            for index, start in enumerate(starts)
        ]
        self._walk(walks, self._share(SHARE_OF_FIRST_WALK))
        self._search_sets(self._share(SHARE_OF_SETS))
        self._walk(walks, self._share(1.0 if is_one_stream else SHARE_OF_WALK))
        if not is_one_stream:
            self._search_stream_orders(self._share(SHARE_OF_STREAM_ORDERS))
            self._walk_streams([self.best, given], self._share(1.0))

    @property
    def _is_proven(self) -> bool:
        return self.bound.bytes <= self.least_bytes

    def _share(self, part: float) -> _Share:
        seconds = self._budget.remaining_seconds()
        return _Share(
            time.monotonic() + part * seconds if math.isfinite(seconds) else math.inf,
            max(1, int(part * self._nodes_left)) if self._nodes_left else 0,
        )

    def _spend(self, share: _Share, what: str, nodes: int) -> None:
        self.statistics[what] += nodes
        share.nodes -= nodes
        self._nodes_left = max(0, self._nodes_left - nodes)

    def _raise_least(self, least_bytes: int, certificate: str) -> None:
        if least_bytes > self.least_bytes:
            self.least_bytes, self.certificate = least_bytes, certificate

    def _offer(self, order: Order) -> None:
        """Judge an order, and keep it if its bound is the lowest so far."""
        # The most live bytes of a global order never exceed the heaviest antichain of its streams,
        # so that an order refused here has no lower bound.
        if self._core.peak(order) >= self.bound.bytes:
            return
        problem = in_order(self._problem, order.astype(np.int64))
        bound: Bound = bound_of_order(problem)
        if bound.bytes < self.bound.bytes:
            self.bound, self.best, self.best_problem = bound, order, problem

    def _walk(self, walks: list[_core.OrderWalk], share: _Share) -> None:
        """Run walks over global orders in turn, slice by slice."""
        while not share.over and not self._is_proven:
            if all(walk.best_peak <= self.least_bytes for walk in walks):
                return
            for walk in walks:
                peak, tried = walk.best_peak, walk.tried
                self._take_slice(walk.run, share, MOVES_A_SLICE)
                self._spend(share, "moves", walk.tried - tried)
                if walk.best_peak < peak:
                    self._offer(walk.best)

    def _search_sets(self, share: _Share) -> None:
        """Search over down-sets, to find a better order or to raise the bound on all orders."""
        if self._is_proven or share.over:
            return
        search = _core.DownSetSearch(self._core)
        try:
            verdict = search.run(self.least_bytes, self.bound.bytes, share.nodes, share.seconds)
        except TimeoutError:
            verdict = _core.OrderVerdict.STATE_LIMIT
        finally:
            self._raise_least(search.bound, DOWN_SETS)
        self._spend(share, "sets taken", search.taken)
        if verdict is _core.OrderVerdict.FOUND:
            self._offer(search.order)

    @cached_property
    def _columns(self) -> _core.GraphColumns:
        graph = self._graph
        _, stream = np.unique(graph.stream, return_inverse=True)
        return _core.GraphColumns(
            _narrow(stream), _narrow(graph.producer), graph.consumer_offsets,
            _narrow(graph.consumer_nodes), _narrow(graph.control), self._problem.size,
        )  # fmt: skip

    def _search_stream_orders(self, share: _Share) -> None:
        """If the graph has few nodes, search over all orders of its several streams."""
        few = self._graph.node_count <= MOST_NODES_IN_ALL_ORDERS
        if not few or self._is_proven or share.over:
            return
        search = _core.StreamOrderSearch(self._core, self._columns)
        verdict = _core.OrderVerdict.STATE_LIMIT
        try:
            with suppress(TimeoutError):
                verdict = search.run(self.least_bytes, self.bound.bytes, share.nodes, share.seconds)
        finally:
            if len(search.order):
                self._offer(search.order)
        self._spend(share, "flows", search.flows)
        if verdict is not _core.OrderVerdict.STATE_LIMIT:
            self._raise_least(self.bound.bytes, STREAM_ORDERS)

    def _walk_streams(self, starts: list[Order], share: _Share) -> None:
        """Run walks over orders of streams in turn; they judge moves by the heaviest antichain."""
        walks = [
            _core.StreamWalk(
                self._core, self._columns, start, self.least_bytes, self._budget.seed + index
            )
            for index, start in enumerate(starts)
        ]
        while not share.over and not self._is_proven:
            for walk in walks:
                tried = walk.tried
                self._take_slice(walk.run, share, FLOWS_A_SLICE)
                self._spend(share, "flows", walk.tried - tried)
                if 0 <= walk.best_bytes < self.bound.bytes:
                    self._offer(walk.best)

    def _take_slice(self, run: Callable[[int, float], None], share: _Share, most: int) -> None:
        try:
            run(max(0, min(most, share.nodes)), share.seconds)
        except TimeoutError:
            share.nodes = 0
