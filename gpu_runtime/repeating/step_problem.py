"""The problem of a recorded step."""

from __future__ import annotations

from gpu_runtime.repeating.recorded_step import RecordedNode, RecordedStep
from planners.model.graph import Graph
from planners.model.problem import Problem
from planners.model.work import FORWARD, Work


def problem_of(recorded: RecordedStep, name: str = "step") -> Problem:
    """Return the problem of a recorded step, whose graph knows its work.

    Its tensors are those that the step makes, gradients included. Parameters, optimizer state and
    the batch are outside of it.
    """
    nodes = recorded.nodes
    # Tensors that lie in another have no bytes of their own.
    alive = [number for number, size in enumerate(recorded.size) if size > 0]
    place = {number: index for index, number in enumerate(alive)}
    producer = [-1] * len(alive)
    consumers: list[list[int]] = [[] for _ in alive]
    written: list[tuple[int, int]] = []
    for index, node in enumerate(nodes):
        for number in node.made:
            producer[place[number]] = index
        for number in dict.fromkeys((*node.reads, *node.written)):
            consumers[place[number]].append(index)
        written += [(index, place[number]) for number in dict.fromkeys(node.written)]
    work = Work(
        flops=[node.effort.flops for node in nodes],
        moved_bytes=[node.effort.moved_bytes for node in nodes],
        phase=[node.phase for node in nodes],
        repeatable=_repeatable(nodes, recorded.held),
        written=written,
    )
    return Problem(
        [recorded.size[number] for number in alive],
        graph=Graph(
            op=[node.op for node in nodes],
            stream=[0] * len(nodes),
            producer=producer,
            consumers=consumers,
            work=work,
        ),
        tensor_name=[recorded.name[number] for number in alive],
        name=name,
        origin={"precision": recorded.precision},
    )


def _repeatable(nodes: list[RecordedNode], held: frozenset[int]) -> list[int]:
    """Return 1 for each kernel that may run again.

    That is a kernel of the forward pass that changes nothing from outside the step, reads nothing
    from there that is changed later, and makes nothing that the program holds anyway.
    """
    changed_later: frozenset[int] = frozenset()
    repeatable: list[int] = []
    for node in reversed(nodes):
        may = (
            node.may_repeat
            and node.phase == FORWARD
            and not node.outside_written
            and changed_later.isdisjoint(node.outside_reads)
            and held.isdisjoint((*node.made, *node.written))
        )
        repeatable.append(int(may))
        changed_later |= node.outside_written
    return repeatable[::-1]
