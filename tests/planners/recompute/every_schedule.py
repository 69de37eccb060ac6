"""All schedules of a tiny step, counted out, and what one costs, computed the slow way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import numpy as np

from instances.synthetic import repeatable_step
from planners import Graph, Problem
from planners.model.work import Work
from planners.recompute import DeviceRates, RepeatableStep

# A node takes as many seconds as it computes or moves; copies are as fast as kernels.
UNIT_RATES = DeviceRates("unit", {"float32": 1.0}, 1.0, 1.0)


def small_step(
    seed: int,
    layers: int = 3,
    operations: int = 1,
    *,
    skip_every: int = 2,
    may_send: bool = False,
) -> RepeatableStep:
    """Return a step of a few nodes, some of which may run again."""
    problem = repeatable_step(layers, operations=operations, skip_every=skip_every, seed=seed)
    return RepeatableStep(problem, UNIT_RATES, may_send=may_send)


def mixed_step(seed: int, *, may_send: bool = False) -> RepeatableStep:
    """Return a random step with chains, pins, late changes, and passes that are interleaved."""
    rng = Random(seed)
    nodes = rng.randint(6, 8)
    phase = [int(node > nodes // 2) for node in range(nodes)]
    if seed % 2:
        rng.shuffle(phase)
    consumers: list[list[int]] = [
        [node for node in range(tensor + 1, nodes) if rng.random() < 0.4] for tensor in range(nodes)
    ]
    written = [(node, tensor) for tensor in range(nodes) for node in consumers[tensor]
               if rng.random() < 0.15]  # fmt: skip
    tensors = rng.sample(range(nodes), 3)
    size = [rng.randint(0, 9) for _ in range(nodes)]
    graph = Graph(
        op=[f"n{node}" for node in range(nodes)], stream=[0] * nodes, producer=range(nodes),
        consumers=consumers,
        work=Work(
            flops=[rng.choice((0, 3, 5)) * (seed % 5 > 0) for _ in range(nodes)],
            moved_bytes=[0] * nodes, phase=phase, repeatable=[1] * nodes, written=written,
        ),
    )  # fmt: skip
    problem = Problem(
        size, graph=graph, contiguous=[tensors[:2]] if rng.random() < 0.6 else (),
        pinned={tensors[2]: 0} if rng.random() < 0.2 else None,
    )  # fmt: skip
    return RepeatableStep(problem, UNIT_RATES, may_send=may_send)


def every_sequence(step: RepeatableStep) -> Iterator[list[int]]:
    """Yield every sequence in which each unit that may run again does so at most once more."""
    units = [nodes.tolist() for nodes, may in
             zip(step.nodes_of_unit, step.is_repeatable, strict=True) if may]  # fmt: skip

    def extend(sequence: list[int], next_first: int, again: frozenset[int]) -> Iterator[list[int]]:
        if next_first == step.graph.node_count:
            yield sequence
            return
        yield from extend([*sequence, next_first], next_first + 1, again)
        for number, nodes in enumerate(units):
            if number not in again and nodes[-1] < next_first:
                yield from extend([*sequence, *nodes], next_first, again | {number})

    return extend([], 0, frozenset())


def live_bytes(step: RepeatableStep, sequence: list[int]) -> int:
    """Return the most bytes that live at once: each copy from its making to its last reading."""
    graph, size = step.graph, step.problem.size.tolist()
    nodes, tensors = graph.node_count, graph.tensor_count
    lives: list[tuple[int, int, int]] = []
    latest: dict[int, tuple[int, int]] = {}
    for place, entry in enumerate(sequence):
        made = [t for t in range(tensors) if graph.producer[t] == entry]
        read = [t for t in range(tensors) if entry in graph.consumers_of(t)]
        if nodes <= entry < nodes + tensors:
            read = [entry - nodes]
        elif entry >= nodes + tensors:
            made = [entry - nodes - tensors]
        for tensor in made:
            if tensor in latest:
                lives.append((*latest[tensor], tensor))
            latest[tensor] = place, place
        for tensor in read:
            latest[tensor] = latest[tensor][0], place
    lives += [(*span, tensor) for tensor, span in latest.items()]
    return max(
        sum(size[t] for begin, end, t in lives if begin <= place <= end)
        for place in range(len(sequence))
    )


def seconds_of_graph(step: RepeatableStep, problem: Problem, sequence: list[int]) -> float:
    """Return when the last run of a sequence ends, if each begins as early as its arcs allow.

    `problem` is that of the sequence; a copy takes a second for each byte.
    """
    graph = problem.graph
    assert graph is not None
    nodes, tensors = step.graph.node_count, step.graph.tensor_count
    before: list[list[int]] = [[] for _ in sequence]
    for tensor, reader in zip(graph.consumer_tensors, graph.consumer_nodes, strict=True):
        before[reader].append(int(graph.producer[tensor]))
    for earlier, later in graph.control.tolist():
        before[later].append(earlier)
    ends: list[float] = []
    last_on: dict[int, float] = {}
    for place, entry in enumerate(sequence):
        takes = (
            float(step.node_seconds[entry])
            if entry < nodes
            else float(step.problem.size[(entry - nodes) % tensors])
        )
        stream = int(graph.stream[place])
        waits = [ends[earlier] for earlier in before[place] if earlier != place]
        ends.append(max([last_on.get(stream, 0.0), *waits]) + takes)
        last_on[stream] = ends[-1]
    return max(ends)


@dataclass(frozen=True)
class EverySchedule:
    """Live bytes and seconds more of all sequences of a step."""

    peaks: list[int]
    extras: list[float]

    @classmethod
    def of(cls, step: RepeatableStep) -> EverySchedule:
        sequences = list(every_sequence(step))
        extras = [float(step.node_seconds[s].sum()) - step.seconds for s in sequences]
        return cls([live_bytes(step, sequence) for sequence in sequences], extras)

    def least_extra(self, limit: int) -> float:
        """Return the fewest seconds more within a limit; infinite if nothing is."""
        pairs = zip(self.peaks, self.extras, strict=True)
        return min((extra for peak, extra in pairs if peak <= limit), default=np.inf)
