"""A step whose results may be computed again or sent away: its units, and what a choice costs.

Note [What may run again]
~~~~~~~~~~~~~~~~~~~~~~~~~
Rationale. A tensor that lives from the forward to the backward pass need not be kept: what made it
can run again, just before the backward pass needs it.

Approach. All nodes run on one stream, in the order in which the problem lists them, as PyTorch runs
a step. Nodes that change a tensor in place and the node that made it are one unit, because only
together they give the same bytes again. The nodes that make the tensors of a chain are one unit as
well: the new copies are a chain, as the first copies are. A unit may run again if every node of it
is marked repeatable, belongs to the forward pass, and makes nothing that the optimizer reads: by
then, the parameters have changed. A node that reads a tensor before a later node changes it cannot
run again itself, because the bytes that it read are gone. What makes a pinned tensor does not run
again either: at its address another tensor may lie by then. A unit runs at most twice.

Where copies to the host are allowed, a tensor of the forward pass that is read later may be sent
away in between, unless it is pinned or in a chain. Copies run on two streams of their own, one in
each direction.

Limits. The graph's other streams are not modelled: copies and collectives wait in the one order.
Bytes that a kernel needs besides its results are not in the graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from planners import _core
from planners.errors import InstanceError
from planners.model.columns import BoolColumn, IntColumn, read_only
from planners.model.graph import Graph
from planners.model.problem import Problem, Scalar
from planners.model.work import FORWARD, OPTIMIZER, Work
from planners.recompute.devices import DeviceRates

Flags = NDArray[np.uint8]
Sequence32 = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Choice:
    """The units that run again, and the tensors that are sent to the host and fetched."""

    repeated: Flags
    sent: Flags


@dataclass(frozen=True, eq=False)
class RepeatableStep:
    """A problem with a graph, as a step of which some units may run again.

    Parameters
    ----------
    problem
        Its graph must know its work.
    rates
        Rates that give the seconds of the nodes.
    may_send
        Whether tensors may be sent to the host, at the rate of a copy.

    Raises
    ------
    InstanceError
        The problem has no graph, or its graph does not know its work.
    """

    problem: Problem
    rates: DeviceRates
    may_send: bool = False

    def __post_init__(self) -> None:
        if self.problem.graph is None:
            raise InstanceError(
                f"{self.problem.name}: a graph is needed, because its nodes say what can be "
                f"computed again; found {self.problem.safety.value}"
            )
        if self.problem.graph.work is None:
            raise InstanceError(
                f"{self.problem.name}: field graph.work is needed, which says what each node "
                f"computes and whether it may run again; gapless extract writes it"
            )

    @property
    def graph(self) -> Graph:
        """The graph of the step."""
        assert self.problem.graph is not None
        return self.problem.graph

    @property
    def work(self) -> Work:
        """The work of the nodes."""
        assert self.graph.work is not None
        return self.graph.work

    @cached_property
    def node_seconds(self) -> NDArray[np.float64]:
        """Seconds of each node."""
        return self.rates.node_seconds(self.problem, self.work)

    @cached_property
    def seconds(self) -> float:
        """Seconds of the whole step, where nothing runs again."""
        return float(self.node_seconds.sum())

    @cached_property
    def unit_of_node(self) -> IntColumn:
        """Unit of each node, int64; units are numbered in the order of their first nodes."""
        parent = list(range(self.graph.node_count))

        def root(node: int) -> int:
            while parent[node] != node:
                parent[node] = parent[parent[node]]
                node = parent[node]
            return node

        producer = self.graph.producer.tolist()
        pairs = [(node, producer[tensor]) for node, tensor in self.work.written.tolist()]
        for chain in self.problem.contiguous:
            pairs += pairwise([producer[tensor] for tensor in chain])
        for pair in pairs:
            first, second = sorted(map(root, pair))
            parent[second] = first
        roots = np.fromiter(map(root, range(len(parent))), np.int64, len(parent))
        return read_only(np.unique(roots, return_inverse=True)[1].astype(np.int64))

    @cached_property
    def unit_count(self) -> int:
        """Number of units."""
        return int(self.unit_of_node.max(initial=-1)) + 1

    @cached_property
    def unit_of_tensor(self) -> IntColumn:
        """Unit that makes each tensor, int64."""
        return read_only(self.unit_of_node[self.graph.producer])

    @cached_property
    def unit_seconds(self) -> NDArray[np.float64]:
        """Seconds of a second run of each unit."""
        seconds = np.zeros(self.unit_count)
        np.add.at(seconds, self.unit_of_node, self.node_seconds)
        return seconds

    @cached_property
    def nodes_of_unit(self) -> Sequence[IntColumn]:
        """Nodes of each unit, in order."""
        order = np.argsort(self.unit_of_node, kind="stable")
        ends = np.cumsum(np.bincount(self.unit_of_node, minlength=self.unit_count))
        return np.split(order, ends[:-1])

    @cached_property
    def is_repeatable(self) -> BoolColumn:
        """Whether each unit may run again."""
        graph, work = self.graph, self.work
        tensors, readers = graph.consumer_tensors, graph.consumer_nodes
        may = (work.repeatable == 1) & (work.phase == FORWARD)
        read_late = work.phase[readers] == OPTIMIZER
        may[graph.producer[tensors[read_late]]] = False
        may[graph.producer[self.problem.pinned >= 0]] = False
        last_change = np.full(graph.tensor_count, -1, dtype=np.int64)
        np.maximum.at(last_change, work.written[:, 1], work.written[:, 0])
        units = self.unit_of_node
        is_gone = (readers < last_change[tensors]) & (
            units[readers] != units[graph.producer[tensors]]
        )
        may[readers[is_gone]] = False
        repeatable = np.ones(self.unit_count, dtype=bool)
        np.logical_and.at(repeatable, units, may)
        return read_only(repeatable)

    @cached_property
    def first_late_node(self) -> int:
        """First node behind the forward pass; the number of nodes if there is none."""
        late = np.flatnonzero(self.work.phase != FORWARD)
        return int(late[0]) if len(late) else self.graph.node_count

    @cached_property
    def last_early_use(self) -> IntColumn:
        """Last node of the forward pass that uses each tensor, int64, or else makes it."""
        graph = self.graph
        last = graph.producer.copy()
        early = graph.consumer_nodes < self.first_late_node
        np.maximum.at(last, graph.consumer_tensors[early], graph.consumer_nodes[early])
        return read_only(last)

    @cached_property
    def first_late_use(self) -> IntColumn:
        """First node behind the forward pass that reads each tensor, int64; node count if none."""
        graph = self.graph
        first = np.full(graph.tensor_count, graph.node_count)
        late = graph.consumer_nodes >= self.first_late_node
        np.minimum.at(first, graph.consumer_tensors[late], graph.consumer_nodes[late])
        return read_only(first)

    @cached_property
    def is_sendable(self) -> BoolColumn:
        """Whether each tensor may be sent away: it is made in the forward pass and read later."""
        sendable = (self.first_late_use < self.graph.node_count) & (self.problem.size > 0)
        sendable &= (self.graph.producer < self.first_late_node) & (self.problem.pinned < 0)
        sendable[[tensor for chain in self.problem.contiguous for tensor in chain]] = False
        return read_only(sendable & self.may_send)

    @property
    def copy_seconds(self) -> float:
        """Seconds of a copy between host and device for each byte."""
        return 1 / self.rates.host_bytes_per_second

    @cached_property
    def core(self) -> _core.Step:
        """The step in the C++ core's form."""
        graph = self.graph
        return _core.Step(
            graph.node_count, graph.producer.astype(np.int32), graph.consumer_offsets,
            graph.consumer_nodes.astype(np.int32), self.problem.size,
            self.unit_of_node.astype(np.int32), self.node_seconds,
            self.is_repeatable.astype(np.uint8), self.is_sendable.astype(np.uint8),
            self.copy_seconds, self.first_late_node,
        )  # fmt: skip

    @cached_property
    def live_bytes(self) -> IntColumn:
        """Live bytes at each node where nothing runs again, int64."""
        return self.core.live_bytes(np.arange(self.graph.node_count, dtype=np.int32))

    def choice(
        self, units: Sequence[int] | IntColumn = (), tensors: Sequence[int] | IntColumn = ()
    ) -> Choice:
        """Return the choice to run some units again, and to send some tensors away."""
        repeated = np.zeros(self.unit_count, dtype=np.uint8)
        repeated[np.asarray(units, dtype=np.int64)] = 1
        sent = np.zeros(self.graph.tensor_count, dtype=np.uint8)
        sent[np.asarray(tensors, dtype=np.int64)] = 1
        return Choice(repeated, sent)

    def late_sequence(self, choice: Choice) -> Sequence32:
        """Return the nodes and copies in the order in which they run.

        A chosen unit runs again just before the first node of the backward pass that needs a result
        of it, directly or for another second run. A chosen tensor is sent away behind its last use
        in the forward pass, and fetched in time for its next use. Entry ``nodes + t`` sends tensor
        t away, and ``nodes + tensors + t`` fetches it.
        """
        return self.core.late_sequence(choice.repeated, choice.sent)

    def choice_of(self, sequence: Sequence32) -> Choice:
        """Return the choice of a sequence: units that run twice, and tensors that are sent away."""
        nodes, tensors = self.graph.node_count, self.graph.tensor_count
        counts = np.bincount(sequence, minlength=nodes + 2 * tensors)
        again = self.unit_of_node[counts[:nodes] > 1]
        return self.choice(again, np.flatnonzero(counts[nodes : nodes + tensors]))

    def share(self, seconds: float) -> float:
        """Return seconds as a part of those of the step; infinite if the step takes no time."""
        if seconds and not self.seconds:
            return np.inf
        return seconds / (self.seconds or 1.0)

    def cost(self, choice: Choice, limit: int) -> tuple[float, int, float]:
        """Return seconds more, peak of live bytes, and the bytes above a limit.

        The last are summed over the places of the sequence, as a part of the limit.
        """
        return self.core.cost(self.late_sequence(choice), limit)


COPY_STREAMS = {"send": 1, "fetch": 2}


def repeated_problem(
    step: RepeatableStep, sequence: Sequence32, said: Mapping[str, Scalar] = MappingProxyType({})
) -> Problem:
    """Return the problem of a sequence of nodes and copies, some of which run twice.

    Parameters
    ----------
    step
        The step that they belong to.
    sequence
        int32: nodes and copies in the order in which they run, as
        :meth:`RepeatableStep.late_sequence` numbers them. The first runs are in the order of the
        step. A node reads the latest copy of each tensor.
    said
        Further entries of the origin, beside those of the step.

    Returns
    -------
    Problem
        One node for each run, and one for each copy, which have streams of their own: a sending
        waits for the unit that makes its tensor, and the node behind it waits for it; a fetch waits
        for its sending and the node in front of it. The tensors of the first runs have the numbers
        of the step, and the new ones follow, in the order in which they are made. The new copies of
        a chain are a chain.
    """
    graph, problem = step.graph, step.problem
    runs = _Runs(step)
    for entry in sequence.tolist():
        runs.add(entry)
    origin = np.array(runs.origin, dtype=np.int64)
    names = problem.tensor_name
    return Problem(
        problem.size[origin],
        alignment=problem.alignment[origin],
        contiguous=[
            copies
            for chain in problem.contiguous
            for copies in zip(*(runs.copies[tensor] for tensor in chain), strict=False)
        ],
        pinned={t: int(p) for t, p in enumerate(problem.pinned.tolist()) if p >= 0},
        capacity=problem.capacity,
        tensor_name=names
        and [*names, *(f"{names[tensor]} again" for tensor in runs.origin[graph.tensor_count :])],
        name=problem.name,
        origin={**problem.origin, **said},
        graph=Graph(
            op=runs.op,
            stream=runs.stream,
            producer=runs.producer,
            consumers=runs.consumers,
            control=sorted(runs.control),
        ),
    )


class _Runs:
    """The graph of a sequence under construction."""

    def __init__(self, step: RepeatableStep) -> None:
        graph = step.graph
        self._graph = graph
        self._makes: list[list[int]] = [[] for _ in range(graph.node_count)]
        self._reads: list[list[int]] = [[] for _ in range(graph.node_count)]
        for tensor, node in enumerate(graph.producer.tolist()):
            self._makes[node].append(tensor)
        for tensor, node in zip(
            graph.consumer_tensors.tolist(), graph.consumer_nodes.tolist(), strict=True
        ):
            self._reads[node].append(tensor)
        self.op: list[str] = []
        self.stream: list[int] = []
        # The tensor of the step that each tensor is a copy of, and all copies of each so far.
        self.origin = list(range(graph.tensor_count))
        self.copies = [[tensor] for tensor in self.origin]
        self.producer = [-1] * graph.tensor_count
        self.consumers: list[list[int]] = [[] for _ in self.origin]
        self.control: set[tuple[int, int]] = set()
        self._last_node = -1
        self._unit = step.unit_of_node
        # The node that last made or changed each tensor.
        self._ready: dict[int, int] = {}
        # The sending of each tensor, and those that the next node waits for.
        self._sending: dict[int, int] = {}
        self._awaited: list[int] = []

    def add(self, entry: int) -> None:
        """Add one entry of the sequence."""
        nodes, tensors = self._graph.node_count, self._graph.tensor_count
        place = len(self.op)
        if entry >= nodes + tensors:
            tensor = entry - nodes - tensors
            self._append("fetch", COPY_STREAMS["fetch"])
            self.control |= {(self._sending[tensor], place), (self._last_node, place)}
            self._make(tensor, place)
        elif entry >= nodes:
            tensor = entry - nodes
            self._append("send", COPY_STREAMS["send"])
            self.consumers[self.copies[tensor][-1]].append(place)
            self.control.add((self._ready[tensor], place))
            self._sending[tensor] = place
            self._awaited.append(place)
        else:
            self._append(self._graph.op[entry], 0)
            for tensor in self._makes[entry]:
                self._make(tensor, place)
                self._ready[tensor] = place
            for tensor in self._reads[entry]:
                self.consumers[self.copies[tensor][-1]].append(place)
                if self._unit[entry] == self._unit[self._graph.producer[tensor]]:
                    self._ready[tensor] = place
            self.control |= {(sending, place) for sending in self._awaited}
            self._awaited = []
            self._last_node = place

    def _append(self, op: str, stream: int) -> None:
        self.op.append(op)
        self.stream.append(stream)

    def _make(self, tensor: int, place: int) -> None:
        copy = tensor
        if self.producer[tensor] >= 0:
            copy = len(self.origin)
            self.origin.append(tensor)
            self.producer.append(-1)
            self.consumers.append([])
            self.copies[tensor].append(copy)
        self.producer[copy] = place
