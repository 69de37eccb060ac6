"""Training steps that say what their nodes compute, so that results may be computed again."""

from __future__ import annotations

import random
from typing import Any

from instances.synthetic.family import MOST, UNIT_BYTES, Drawing, family, require_between
from planners.model.graph import Graph
from planners.model.problem import Problem
from planners.model.work import BACKWARD, FORWARD, OPTIMIZER, Work


@family(layers=1, operations=1)
def repeatable_step(
    layers: int, *, operations: int = 2, skip_every: int = 2, seed: int = 0
) -> Drawing:
    """Return a training step whose nodes have costs, and whose forward nodes may run again.

    A forward sweep runs a few operations a layer. Every ``skip_every`` layers an operation also
    reads what an earlier layer made, and some operations change their input in place. The backward
    sweep reads what each operation read or made, in reverse, and makes a gradient a layer for the
    optimizer. There is one stream. Sizes are multiples of 512 bytes, up to 32 KiB.
    """
    require_between("operations", operations, 1, max(1, MOST // layers))
    require_between("skip_every", skip_every, 1, MOST)
    step = _Step(random.Random(seed))
    step.run_backward(operations, *step.run_forward(layers, operations, skip_every))
    return Drawing(step.problem, f"repeatable-step-{layers}-{operations}-{skip_every}")


class _Step:
    """The nodes and tensors of a training step, which grows node by node."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._size: list[int] = []
        self._graph: dict[str, list[Any]] = {"op": [], "producer": [], "consumers": []}
        self._work: dict[str, list[Any]] = {column: [] for column in (*Work.COLUMNS, "written")}

    def run_forward(
        self, layers: int, operations: int, skip_every: int
    ) -> tuple[list[list[int]], int]:
        """Run all layers; return the tensors that each operation saves, and the last result."""
        current = self._run("input", [], FORWARD, self._some_bytes(), again=0)
        saved: list[list[int]] = []
        outputs = [current]
        for layer in range(layers):
            for _ in range(operations):
                before = current
                current = self._run("forward", [before], FORWARD, self._some_bytes())
                # The backward pass of an operation reads its input, its result, or both.
                saved.append([[before], [current], [before, current]][self._rng.randrange(3)])
            if (layer + 1) % skip_every == 0:
                earlier = outputs[self._rng.randrange(len(outputs))]
                if earlier != current:
                    self._work["written"].append((len(self._graph["op"]), current))
                    self._run("add_", [current, earlier], FORWARD)
            outputs.append(current)
        return saved, current

    def run_backward(self, operations: int, saved: list[list[int]], result: int) -> None:
        """Run the operations in reverse, with an update for each layer."""
        gradient = self._run("loss", [result], BACKWARD, 512, again=0)
        for index, kept in reversed(list(enumerate(saved))):
            reads = [gradient, *kept]
            if index % operations == 0:
                made = self._run("parameter-gradient", reads, BACKWARD, self._some_bytes(), again=0)
                self._run("update", [made], OPTIMIZER, again=0)
            gradient = self._run("backward", reads, BACKWARD, self._size[kept[0]], again=0)

    def problem(self, **given: Any) -> Problem:
        """Return the step as a problem with one stream."""
        graph = Graph(**self._graph, stream=[0] * len(self._graph["op"]), work=Work(**self._work))
        return Problem(self._size, graph=graph, **given)

    def _some_bytes(self) -> int:
        return UNIT_BYTES * self._rng.randint(1, 64)

    def _run(self, name: str, reads: list[int], phase: int, makes: int = 0, again: int = 1) -> int:
        """Add a node, and return the tensor that it makes, or the first one that it reads."""
        op, producer, consumers = self._graph.values()
        for tensor in dict.fromkeys(reads):
            consumers[tensor].append(len(op))
        moved = makes + sum(self._size[tensor] for tensor in reads)
        # Products compute much for a byte, the other operations little.
        flops = moved * self._rng.choice((0, 1, 200))
        row = {"flops": flops, "moved_bytes": moved, "phase": phase, "repeatable": again}
        for column, value in row.items():
            self._work[column].append(value)
        op.append(name)
        if not makes:
            return reads[0]
        producer.append(len(op) - 1)
        self._size.append(makes)
        consumers.append([])
        return len(self._size) - 1
