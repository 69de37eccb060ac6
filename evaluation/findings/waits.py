"""What single waits between streams are worth in memory: those that are there, and one more.

Note: what a wait is worth
--------------------------
Rationale. Where a node of one stream waits for a node of another, by an arc of data or of control,
every path through that arc orders tensors, and tensors that are ordered may share bytes. So a wait
costs time and saves memory. The heaviest antichain says how much, whoever plans: to take the order
of a wait away can only raise it, and one more wait can only lower it.

Approach, one wait less. The arc goes and every tensor keeps its users. Where data ran through it,
its reader still has to end before the tensor is dead: the reader is replaced by a node on a stream
of its own, behind producer and reader, before all that both precede. It orders nothing else.

What it costs is bounded before it is known. A pair is newly unsafe only if a user ``x`` of one no
longer precedes the producer ``y`` of the other, which new clocks from the reader on tell. Let P be
the tensors with such a user, Q those with such a producer. Of a heaviest antichain afterwards the
part outside of P was an antichain before, and so was the part outside of Q. So it is heavier by at
most the bytes of P, and by at most those of Q.

Approach, one more wait. Only arcs along the order in which nodes are listed are asked for, so that
order stays possible. Of two arcs between the same streams the one from a later node to an earlier
one has the other's order and more. So for each pair of streams only arcs remain from the last node
before the reader to the first one behind the writer; and of those, the ones that no other implies.

What it saves is bounded by every antichain that was found so far, of the graph itself or with
another wait: it was one of the graph as well. With a new arc ``u -> v`` a pair of it is newly safe
only from a tensor that has a user up to ``u`` to one whose producer is ``v`` or later, and without
either of these sides it is an antichain still. So the heaviest one keeps at least the bytes of the
whole without the lighter side. Nor does any wait go below the lifetime bound, that of the order in
which nodes are listed: where both bounds meet, no wait saves anything.

Waits are judged by their heaviest antichain, the most promising first, until no bound is above the
last of those that are wanted: no other wait is worth more.

Limits. Waits that are worth nothing are left out. What a wait takes of time is not asked.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from planners import _core
from planners.model.bounds import lifetime_bound
from planners.model.columns import IntColumn
from planners.model.graph import Graph
from planners.model.problem import Problem
from planners.safety.algorithms import core_graph

# The node that stands for the producer and the reader of a wait that is not counted on.
JOINT_OP = "both-ended"

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Wait:
    """A node that waits for another one, on another stream."""

    before: int
    after: int


@dataclass(frozen=True)
class WorthOfWait:
    """What the heaviest antichain is with a wait more or less, bytes."""

    wait: Wait
    antichain: int
    # How much that is below or above the one of the graph as it is.
    change: int


@dataclass(frozen=True)
class JudgedWaits:
    """The waits that are worth most, the most first, and how many had to be judged for that."""

    most: list[WorthOfWait]
    candidates: int
    judged: int


@dataclass(frozen=True, eq=False)
class Reach:
    """Who precedes whom in a graph, as clocks: by node and stream, how far paths go."""

    graph: Graph

    @cached_property
    def stream(self) -> IntColumn:
        """Streams, numbered without holes."""
        _, dense = np.unique(self.graph.stream, return_inverse=True)
        return np.asarray(dense, dtype=np.int64)

    @cached_property
    def position(self) -> IntColumn:
        """The number of each node within its stream, from 1."""
        position = np.zeros(self.graph.node_count, dtype=np.int64)
        for stream in range(self.graph.stream_count):
            its = np.flatnonzero(self.stream == stream)
            position[its] = np.arange(1, len(its) + 1)
        return position

    @cached_property
    def neighbours(self) -> tuple[list[set[int]], list[set[int]]]:
        """The direct predecessors and the direct successors of each node."""
        graph = self.graph
        before: list[set[int]] = [set() for _ in graph.op]
        after: list[set[int]] = [set() for _ in graph.op]
        sources = np.concatenate([graph.producer[graph.consumer_tensors], graph.control[:, 0]])
        targets = np.concatenate([graph.consumer_nodes, graph.control[:, 1]])
        last: dict[int, int] = {}
        arcs = list(zip(sources.tolist(), targets.tolist(), strict=True))
        for node, stream in enumerate(self.stream.tolist()):
            if stream in last:
                arcs.append((last[stream], node))
            last[stream] = node
        for u, v in arcs:
            if u != v:
                before[v].add(u)
                after[u].add(v)
        return before, after

    @cached_property
    def past(self) -> IntColumn:
        """By node and stream, the last position there of the node or of what precedes it."""
        before, _ = self.neighbours
        past = np.zeros((self.graph.node_count, self.graph.stream_count), dtype=np.int64)
        for node in range(self.graph.node_count):
            for other in before[node]:
                np.maximum(past[node], past[other], out=past[node])
            past[node, self.stream[node]] = self.position[node]
        return past

    @cached_property
    def future(self) -> IntColumn:
        """By node and stream, the first position there of the node or of what it precedes."""
        _, after = self.neighbours
        future = np.full(
            (self.graph.node_count, self.graph.stream_count), self.beyond, dtype=np.int64
        )
        for node in reversed(range(self.graph.node_count)):
            for other in after[node]:
                np.minimum(future[node], future[other], out=future[node])
            future[node, self.stream[node]] = self.position[node]
        return future

    @property
    def beyond(self) -> int:
        """A position that no node has."""
        return self.graph.node_count + 1

    def up_to(self, nodes: IntColumn, past: IntColumn) -> Flags:
        """Return which nodes are within a past."""
        within: Flags = self.position[nodes] <= past[self.stream[nodes]]
        return within

    def from_on(self, nodes: IntColumn, future: IntColumn) -> Flags:
        """Return which nodes are within a future."""
        within: Flags = self.position[nodes] >= future[self.stream[nodes]]
        return within

    @cached_property
    def users(self) -> tuple[IntColumn, IntColumn]:
        """Tensors and nodes, a pair for each user of a tensor; its producer is one."""
        graph = self.graph
        tensors = np.concatenate([np.arange(graph.tensor_count), graph.consumer_tensors])
        return tensors, np.concatenate([graph.producer, graph.consumer_nodes])

    def without(self, wait: Wait) -> LooseOrder:
        """Return the order without a wait."""
        before, after = self.neighbours
        past = self.past.copy()
        changed: list[int] = []
        # In the order of the nodes, so that all that comes before one is known.
        queue = [wait.after]
        while queue:
            node = heapq.heappop(queue)
            if changed and node == changed[-1]:
                continue
            left = [w for w in before[node] if (w, node) != (wait.before, wait.after)]
            its = past[left].max(axis=0) if left else np.zeros_like(past[node])
            its[self.stream[node]] = self.position[node]
            if (its != past[node]).any():
                past[node] = its
                changed.append(node)
                for other in after[node]:
                    heapq.heappush(queue, other)
        return LooseOrder(self, wait, past, np.array(changed, dtype=np.int64))


@dataclass(frozen=True, eq=False)
class _Arrays:
    """A graph as arrays alone."""

    stream: IntColumn
    producer: IntColumn
    consumer_offsets: IntColumn
    consumer_nodes: IntColumn
    control: IntColumn

    @classmethod
    def of(cls, graph: Graph) -> _Arrays:
        _, stream = np.unique(graph.stream, return_inverse=True)
        return cls(
            np.asarray(stream), graph.producer, graph.consumer_offsets, graph.consumer_nodes,
            graph.control,
        )  # fmt: skip

    @property
    def node_count(self) -> int:
        return len(self.stream)

    def with_arc(self, wait: Wait) -> _Arrays:
        return replace(self, control=np.vstack([self.control, [(wait.before, wait.after)]]))

    def core(self) -> _core.Graph:
        narrow = partial(np.ascontiguousarray, dtype=np.int32)
        return _core.Graph(
            narrow(self.stream), narrow(self.producer), self.consumer_offsets,
            narrow(self.consumer_nodes), narrow(self.control),
        )  # fmt: skip

    def graph(self, op: Sequence[str]) -> Graph:
        return Graph(
            op=op,
            stream=self.stream,
            producer=self.producer,
            consumers=np.split(self.consumer_nodes, self.consumer_offsets[1:-1]),
            control=self.control,
        )


@dataclass(frozen=True, eq=False)
class LooseOrder:
    """The order of a graph without one wait."""

    reach: Reach
    wait: Wait
    # Of the nodes, as :attr:`Reach.past` has it, and the nodes that have less of it than before.
    past: IntColumn
    changed: IntColumn

    def most_it_costs(self, size: IntColumn) -> int:
        """Return the lighter one of the sides P and Q of the Note."""
        reach = self.reach
        is_changed = np.zeros(reach.graph.node_count, dtype=bool)
        is_changed[self.changed] = True
        is_late = is_changed[reach.graph.producer]
        if not is_late.any():
            return 0
        born = np.unique(reach.graph.producer[is_late])
        was, now = reach.past[born], self.past[born]
        tensors, nodes = reach.users
        # By stream, the positions that some tensor of Q no longer comes after.
        is_early = np.zeros(reach.graph.tensor_count, dtype=bool)
        for stream in np.flatnonzero((was > now).any(axis=0)).tolist():
            lost = np.zeros(reach.graph.node_count + 2, dtype=np.int64)
            fewer = was[:, stream] > now[:, stream]
            np.add.at(lost, now[fewer, stream] + 1, 1)
            np.add.at(lost, was[fewer, stream] + 1, -1)
            is_lost = np.cumsum(lost) > 0
            here = reach.stream[nodes] == stream
            is_early[tensors[here][is_lost[reach.position[nodes[here]]]]] = True
        return min(int(size[is_early].sum()), int(size[is_late].sum()))

    @cached_property
    def arrays(self) -> _Arrays:
        """The graph, with a node that stands for both ends where data ran between them."""
        arrays = _Arrays.of(self.reach.graph)
        u, v = self.wait.before, self.wait.after
        control = arrays.control[~((arrays.control == (u, v)).all(axis=1))]
        sources = np.repeat(arrays.producer, np.diff(arrays.consumer_offsets))
        through = (sources == u) & (arrays.consumer_nodes == v)
        if not through.any():
            return replace(arrays, control=control)

        # It is listed right behind the reader.
        joint = v + 1

        def moved(nodes: IntColumn) -> IntColumn:
            return np.where(nodes > v, nodes + 1, nodes)

        consumers = moved(arrays.consumer_nodes)
        consumers[through] = joint
        onward = [(joint, node + 1) for node in self._first_behind_both()]
        return _Arrays(
            np.insert(arrays.stream, joint, arrays.stream.max() + 1),
            moved(arrays.producer),
            arrays.consumer_offsets,
            consumers,
            np.array([*moved(control).tolist(), (v, joint), *onward], dtype=np.int64),
        )

    def _first_behind_both(self) -> list[int]:
        """Return the first node of each stream that both ends precede."""
        reach = self.reach
        is_behind = np.arange(reach.graph.node_count) > self.wait.after
        for end in (self.wait.before, self.wait.after):
            is_behind &= self.past[:, reach.stream[end]] >= reach.position[end]
        behind = np.flatnonzero(is_behind)
        _, first = np.unique(reach.stream[behind], return_index=True)
        return sorted(behind[first].tolist())


def waits_of(graph: Graph) -> list[Wait]:
    """Return the waits between streams that no other path implies."""
    reach = Reach(graph)
    before, _ = reach.neighbours
    return [
        Wait(u, v)
        for v in range(graph.node_count)
        for u in sorted(before[v])
        if reach.stream[u] != reach.stream[v]
        and not any(
            reach.position[u] <= reach.past[w, reach.stream[u]] for w in before[v] if w != u
        )
    ]


def missing_waits(graph: Graph) -> list[Wait]:
    """Return the waits that could be added, of which none has the order of another one."""
    reach = Reach(graph)
    streams = [np.flatnonzero(reach.stream == each) for each in range(graph.stream_count)]
    found = []
    for s, its in enumerate(streams):
        for t, others in enumerate(streams):
            if s == t:
                continue
            first = np.searchsorted(others, its)
            has_reader = first < len(others)
            writers, readers = its[has_reader], others[first[has_reader]]
            # The last writer before each reader.
            is_last = np.append(readers[1:] != readers[:-1], True)[: len(readers)]
            for u, v in zip(writers[is_last].tolist(), readers[is_last].tolist(), strict=True):
                if reach.position[u] > reach.past[v, s]:
                    found.append(Wait(u, v))
    return _not_implied(reach, found)


def _not_implied(reach: Reach, waits: Sequence[Wait]) -> list[Wait]:
    """Return the waits that no other one of them implies."""
    before = np.array([wait.before for wait in waits], dtype=np.int64)
    after = np.array([wait.after for wait in waits], dtype=np.int64)
    return [
        wait
        for wait in waits
        # A later writer and an earlier reader; each wait implies itself.
        if (
            (reach.past[before, reach.stream[wait.before]] >= reach.position[wait.before])
            & reach.up_to(after, reach.past[wait.after])
        ).sum()
        == 1
    ]


def with_wait(graph: Graph, wait: Wait) -> Graph:
    """Return the graph with one more arc of control."""
    return _Arrays.of(graph).with_arc(wait).graph(graph.op)


def without_wait(graph: Graph, wait: Wait) -> Graph:
    """Return the graph without the order of a wait; tensors keep their users."""
    reach = Reach(graph)
    loose = reach.without(wait)
    op = graph.op
    if loose.arrays.node_count > graph.node_count:
        op = (*op[: wait.after + 1], JOINT_OP, *op[wait.after + 1 :])
    return loose.arrays.graph(op)


def heaviest_antichain(graph: _core.Graph, size: IntColumn) -> tuple[int, IntColumn]:
    """Return the bytes of the heaviest antichain, and its tensors."""
    heaviest, tensors = _core.AntichainSearch(graph, size).run(np.inf)
    return heaviest, tensors.astype(np.int64)


def dearest_waits(graph: Graph, size: IntColumn, most: int = 10) -> JudgedWaits:
    """Return the waits whose order saves most memory, each dropped alone."""
    today, _ = heaviest_antichain(core_graph(graph), size)
    reach = Reach(graph)
    waits = waits_of(graph)
    bounds = [reach.without(wait).most_it_costs(size) for wait in waits]

    def judge(wait: Wait) -> WorthOfWait:
        antichain, _ = heaviest_antichain(reach.without(wait).arrays.core(), size)
        return WorthOfWait(wait, antichain, antichain - today)

    found: list[WorthOfWait] = []
    judged = 0
    for index in np.argsort(-np.array(bounds, dtype=np.int64), kind="stable").tolist():
        if bounds[index] <= _least_wanted(found, most):
            break
        found.append(judge(waits[index]))
        judged += 1
    return JudgedWaits(_most(found, most), len(waits), judged)


def best_new_waits(graph: Graph, size: IntColumn, most: int = 10) -> JudgedWaits:
    """Return the waits that would lower the heaviest antichain most, each added alone."""
    today, tensors = heaviest_antichain(core_graph(graph), size)
    reach, arrays = Reach(graph), _Arrays.of(graph)
    waits = missing_waits(graph)
    # What is alive at one step of the order in which nodes are listed stays unsafe.
    most_it_saves = today - lifetime_bound(Problem(size, graph=graph)).bytes
    known = [_Antichain(reach, size, tensors)]
    found: list[WorthOfWait] = []
    # By what it saves at most, and how many antichains said so.
    queue = [(-most_it_saves, index, 0) for index in range(len(waits))]
    judged = 0
    while queue:
        least, index, asked = heapq.heappop(queue)
        if -least <= _least_wanted(found, most):
            break
        if asked < len(known):
            least = max(least, known[asked].keeps(waits[index]) - today)
            heapq.heappush(queue, (least, index, asked + 1))
            continue
        antichain, tensors = heaviest_antichain(arrays.with_arc(waits[index]).core(), size)
        found.append(WorthOfWait(waits[index], antichain, today - antichain))
        known.append(_Antichain(reach, size, tensors))
        judged += 1
    return JudgedWaits(_most(found, most), len(waits), judged)


@dataclass(frozen=True, eq=False)
class _Antichain:
    """Tensors that are pairwise unsafe, and what of them stays so with one more wait."""

    reach: Reach
    size: IntColumn
    tensors: IntColumn

    @cached_property
    def _its_users(self) -> tuple[IntColumn, IntColumn]:
        tensors, nodes = self.reach.users
        inside = np.isin(tensors, self.tensors)
        return np.searchsorted(self.tensors, tensors[inside]), nodes[inside]

    @cached_property
    def _bytes(self) -> IntColumn:
        return self.size[self.tensors]

    def keeps(self, wait: Wait) -> int:
        """Return the bytes of it that are an antichain with one more wait, at least."""
        reach = self.reach
        place, nodes = self._its_users
        is_early = np.zeros(len(self.tensors), dtype=bool)
        is_early[place[reach.up_to(nodes, reach.past[wait.before])]] = True
        is_late = reach.from_on(reach.graph.producer[self.tensors], reach.future[wait.after])
        lighter = min(int(self._bytes[is_early].sum()), int(self._bytes[is_late].sum()))
        return int(self._bytes.sum()) - lighter


def _least_wanted(found: Sequence[WorthOfWait], most: int) -> int:
    """Return what a wait has to be worth more than, to be among the first ones."""
    changes = sorted((each.change for each in found), reverse=True)
    return max(0, changes[most - 1]) if len(changes) >= most else 0


def _most(found: Sequence[WorthOfWait], most: int) -> list[WorthOfWait]:
    worth = [each for each in found if each.change > 0]
    return sorted(worth, key=lambda each: (-each.change, each.wait.after))[:most]
