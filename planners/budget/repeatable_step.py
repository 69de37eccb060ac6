"""A step whose results may be computed again: its units, their seconds, and what a choice costs.

Note [What may run again]
~~~~~~~~~~~~~~~~~~~~~~~~~
Rationale. A tensor that lives from the forward to the backward pass need not be kept: what made it
can run again, just before the backward pass needs it.

Approach. All nodes run on one stream, in the order in which the problem lists them, as PyTorch runs
a step. Nodes that change a tensor in place and the node that made it are one unit, because only
together they give the same bytes again. A unit may run again if every node of it is marked
repeatable, belongs to the forward pass, and makes nothing that the optimizer reads: by then, the
parameters have changed. A node that reads a tensor before a later node changes it cannot run again
itself, because the bytes that it read are gone. A unit runs at most twice.

Limits. The graph's other streams are not modelled: copies and collectives wait in the one order.
Bytes that a kernel needs besides its results are not in the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from planners import _core
from planners.budget.devices import DeviceRates
from planners.errors import InstanceError
from planners.model.columns import BoolColumn, IntColumn, read_only
from planners.model.graph import Graph
from planners.model.problem import Problem
from planners.model.work import FORWARD, OPTIMIZER, Work

Flags = NDArray[np.uint8]
Sequence32 = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class RepeatableStep:
    """A problem with a graph, as a step of which some units may run again.

    Parameters
    ----------
    problem
        Its graph must know its work.
    rates
        What the seconds of the nodes follow from.

    Raises
    ------
    InstanceError
        The problem has no graph, or its graph does not know its work.
    """

    problem: Problem
    rates: DeviceRates

    def __post_init__(self) -> None:
        if self.problem.graph is None:
            raise InstanceError(
                f"{self.problem.name}: a graph is needed, because its nodes say what can be "
                f"computed again; found {self.problem.safety.value}"
            )
        if self.problem.graph.work is None:
            raise InstanceError(
                f"{self.problem.name}: field graph.work is needed, which says what each node "
                f"computes and whether it may run again; extract the step anew with python -m "
                f"instances.extract"
            )

    @property
    def graph(self) -> Graph:
        """The graph of the step."""
        assert self.problem.graph is not None
        return self.problem.graph

    @property
    def work(self) -> Work:
        """What the nodes compute and move."""
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

        for node, tensor in self.work.written.tolist():
            first, second = root(node), root(int(self.graph.producer[tensor]))
            parent[max(first, second)] = min(first, second)
        roots = np.fromiter(map(root, range(len(parent))), np.int64, len(parent))
        return read_only(np.unique(roots, return_inverse=True)[1].astype(np.int64))

    @property
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
        return np.bincount(self.unit_of_node, self.node_seconds, self.unit_count)

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
    def core(self) -> _core.Step:
        """The step in the C++ core's form."""
        graph = self.graph
        return _core.Step(
            graph.node_count, graph.producer.astype(np.int32), graph.consumer_offsets,
            graph.consumer_nodes.astype(np.int32), self.problem.size,
            self.unit_of_node.astype(np.int32),
            np.where(self.is_repeatable, self.unit_seconds, -1.0), self.first_late_node,
        )  # fmt: skip

    @cached_property
    def live_bytes(self) -> IntColumn:
        """Live bytes at each node where nothing runs again, int64."""
        return self.core.live_bytes(np.arange(self.graph.node_count, dtype=np.int32))

    def flags(self, units: Sequence[int] | IntColumn) -> Flags:
        """Return one flag a unit, set for the given ones."""
        flags = np.zeros(self.unit_count, dtype=np.uint8)
        flags[units] = 1
        return flags

    def late_sequence(self, repeated: Flags) -> tuple[Sequence32, float]:
        """Return the nodes in the order in which they run, and the seconds of the second runs.

        A unit whose flag is set runs again just before the first node of the backward pass that
        needs a result of it, directly or for another second run.
        """
        return self.core.late_sequence(repeated)

    def peak_live_bytes(self, repeated: Flags) -> int:
        """Return the most live bytes if these units run again."""
        return int(self.core.live_bytes(self.late_sequence(repeated)[0]).max(initial=0))


def repeated_problem(step: RepeatableStep, sequence: Sequence32) -> Problem:
    """Return the problem of a sequence of nodes, some of which run twice.

    Parameters
    ----------
    step
        The step that the nodes belong to.
    sequence
        int32: nodes in the order in which they run. The first runs are in the order of the step. A
        node reads the latest copy of each tensor.

    Returns
    -------
    Problem
        One node for each run, on one stream. The tensors of the first runs have the numbers of the
        step, and the copies follow.
    """
    graph, problem = step.graph, step.problem
    makes: list[list[int]] = [[] for _ in range(graph.node_count)]
    reads: list[list[int]] = [[] for _ in range(graph.node_count)]
    for tensor, node in enumerate(graph.producer.tolist()):
        makes[node].append(tensor)
    for tensor, node in zip(
        graph.consumer_tensors.tolist(), graph.consumer_nodes.tolist(), strict=True
    ):
        reads[node].append(tensor)
    latest = np.full(graph.tensor_count, -1, dtype=np.int64)
    origin = list(range(graph.tensor_count))
    producer = [-1] * graph.tensor_count
    consumers: list[list[int]] = [[] for _ in origin]
    for place, node in enumerate(sequence.tolist()):
        for tensor in makes[node]:
            if producer[tensor] < 0:
                copy = tensor
            else:
                copy = len(origin)
                origin.append(tensor)
                producer.append(-1)
                consumers.append([])
            producer[copy] = place
            latest[tensor] = copy
        for tensor in reads[node]:
            consumers[latest[tensor]].append(place)
    names = problem.tensor_name
    return Problem(
        problem.size[origin],
        alignment=problem.alignment[origin],
        contiguous=problem.contiguous,
        pinned={t: int(p) for t, p in enumerate(problem.pinned.tolist()) if p >= 0},
        capacity=problem.capacity,
        tensor_name=names
        and [*names, *(f"{names[tensor]} again" for tensor in origin[graph.tensor_count :])],
        name=problem.name,
        origin=problem.origin,
        graph=Graph(
            op=[graph.op[node] for node in sequence.tolist()],
            stream=np.zeros(len(sequence), dtype=np.int64),
            producer=producer,
            consumers=consumers,
        ),
    )
