"""The search for an order: bounds, sets of nodes, and two walks, each with a share of the time.

Note [What is free]
~~~~~~~~~~~~~~~~~~~
Rationale. The bounds of a problem hold for the given order of its nodes. Part of that order is
necessary, and part of it is only the way in which the graph was written down.

Approach. The search keeps the nodes, the stream of each node, every arc from a producer to its
consumers, every control arc, and the tensors with their sizes, alignments, pins and chains. It may
change the order of the nodes, and so the order within each stream, as far as the arcs allow. It
minimises the lower bound of the new problem: the lifetime bound for one stream, the heaviest
antichain for several. It never returns an order with a higher bound than the given one.

Limits. The search knows arcs alone. A tensor has one producer. If a later node writes into the
tensor, only an arc keeps earlier readers before that node. If nodes draw random numbers, only an
arc keeps the draws in their order. So Gapless reorders a graph only if the user asks for it.
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
# Names of the proofs that no order is better.
FORCED, DOWN_SETS, STREAM_ORDERS = "forced", "down-sets", "stream-orders"
# Moves, or flows, of a walk before its best order is looked at. Guesses.
MOVES_A_SLICE = 2000
FLOWS_A_SLICE = 20
# Share of the time for the bound that needs no search. The limit leaves time for the walks on huge
# graphs, on which this bound would not end. A guess.
SHARE_OF_FORCED = 0.2
# Shares of the time then left: for a first walk, which gives an early result; for the search over
# sets; and, with several streams, for the walk over all nodes. Guesses.
SHARE_OF_FIRST_WALK = 0.05
SHARE_OF_SETS = 0.3
SHARE_OF_WALK = 0.3
# Share of the time left after these, for the search over orders of few nodes on several streams.
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
        One with a graph. Arcs of data and control have to be all that orders its nodes.
    budget
        Ten seconds by default. With a node limit and without a time limit, the same seed gives the
        same order. Sets of nodes and tried moves count as nodes.

    Returns
    -------
    Reordering
        The best order found, judged; the given order if none is better.

    Raises
    ------
    InstanceError
        The problem has no graph.
    """
    if problem.graph is None:
        raise InstanceError(
            f"reorder: a graph is needed, for nothing else says which orders there are; found "
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
    """The time and nodes that one part of the search may use."""

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
        """Search until the best order is proven or the budget is spent."""
        given = self.best
        # The time of this bound grows with the square of the number of nodes; it is optional.
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
        """Judge an order, and keep it if it is the best."""
        # The most live bytes of a global order are never more than the antichain of its streams.
        if self._core.peak(order) >= self.bound.bytes:
            return
        problem = in_order(self._problem, order.astype(np.int64))
        bound: Bound = bound_of_order(problem)
        if bound.bytes < self.bound.bytes:
            self.bound, self.best, self.best_problem = bound, order, problem

    def _walk(self, walks: list[_core.OrderWalk], share: _Share) -> None:
        """Run the walks in turns, a slice each."""
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
        """Prove the best order, or a bound on what any order reaches."""
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
        """Prove the best order of several streams, if there are few nodes."""
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
        """Walk by the heaviest antichain, from each start in turn."""
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
