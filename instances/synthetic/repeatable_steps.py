"""Training steps that say what their nodes compute, so that results may be computed again."""

from __future__ import annotations

import random
from functools import partial

from instances.synthetic.family import MOST, UNIT_BYTES, Drawing, family, require_between
from planners.model.graph import Graph
from planners.model.problem import Problem
from planners.model.work import BACKWARD, FORWARD, OPTIMIZER, Work


@family(layers=1, operations=1)
def repeatable_step(
    layers: int, *, operations: int = 2, skip_every: int = 2, seed: int = 0
) -> Drawing:
    """Return a training step whose nodes have costs, and whose forward nodes may run again.

    A forward sweep runs a few operations a layer. Every few layers an operation also reads what an
    earlier layer made, and some operations change their input in place. The backward sweep reads
    what each operation read or made, in reverse, and makes a gradient a layer for the optimizer.

    Parameters
    ----------
    layers, operations
        Number of layers, and operations of each, at least 1.
    skip_every
        Layers between two skip connections, at least 1.

    Returns
    -------
    Problem
        One stream. Sizes are multiples of 512 bytes, up to 32 KiB.
    """
    require_between("operations", operations, 1, max(1, MOST // layers))
    require_between("skip_every", skip_every, 1, MOST)
    rng = random.Random(seed)
    size: list[int] = []
    producer: list[int] = []
    phase: list[int] = []
    moved: list[int] = []
    flops: list[int] = []
    repeatable: list[int] = []
    consumers: list[list[int]] = []
    written: list[tuple[int, int]] = []
    op: list[str] = []

    def some_bytes() -> int:
        return UNIT_BYTES * rng.randint(1, 64)

    def run(name: str, reads: list[int], in_phase: int, makes: int = 0, again: int = 1) -> int:
        """Add a node, and return the tensor that it makes, or the first one that it reads."""
        node = len(op)
        op.append(name)
        phase.append(in_phase)
        for tensor in dict.fromkeys(reads):
            consumers[tensor].append(node)
        moved.append(makes + sum(size[tensor] for tensor in reads))
        # Products compute much for a byte, the other operations little.
        flops.append(moved[-1] * rng.choice((0, 1, 200)))
        repeatable.append(again)
        if not makes:
            return reads[0]
        size.append(makes)
        producer.append(node)
        consumers.append([])
        return len(size) - 1

    current = run("input", [], FORWARD, some_bytes(), again=0)
    saved: list[list[int]] = []
    outputs = [current]
    for layer in range(layers):
        for _ in range(operations):
            before = current
            current = run("forward", [before], FORWARD, some_bytes())
            # The backward pass of an operation reads its input, its result, or both.
            saved.append([[before], [current], [before, current]][rng.randrange(3)])
        if (layer + 1) % skip_every == 0:
            earlier = outputs[rng.randrange(len(outputs))]
            if earlier != current:
                node = len(op)
                run("add_", [current, earlier], FORWARD)
                written.append((node, current))
        outputs.append(current)
    gradient = run("loss", [current], BACKWARD, 512, again=0)
    for index in reversed(range(layers * operations)):
        reads = [gradient, *saved[index]]
        if index % operations == 0:
            made = run("parameter-gradient", reads, BACKWARD, some_bytes(), again=0)
            run("update", [made], OPTIMIZER, again=0)
        gradient = run("backward", reads, BACKWARD, size[saved[index][0]], again=0)
    make = partial(
        Problem,
        size,
        graph=Graph(
            op=op, stream=[0] * len(op), producer=producer, consumers=consumers,
            work=Work(
                flops=flops, moved_bytes=moved, phase=phase, repeatable=repeatable, written=written
            ),
        ),
    )  # fmt: skip
    return Drawing(make, f"repeatable-step-{layers}-{operations}-{skip_every}")
