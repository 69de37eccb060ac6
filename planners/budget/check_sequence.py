"""The rules that a sequence of a repeatable step obeys, checked one by one."""

from __future__ import annotations

from planners.budget.repeatable_step import RepeatableStep, Sequence32
from planners.errors import InvalidPlanError


def check_sequence(step: RepeatableStep, sequence: Sequence32) -> None:
    """Raise ``InvalidPlanError`` unless a sequence gives the same results as the step.

    First runs are in the order of the step, and all of them are there. A second run is of a unit
    that may run again; its nodes follow each other, in order, behind their first runs. A late
    node, and a second run, then reads bytes that the same nodes have made: of a tensor that was
    made again, all changes were made again, since they are of the same unit.
    """
    nodes = step.graph.node_count
    next_first = 0
    seen_again: set[int] = set()
    place = 0
    listed = sequence.tolist()
    while place < len(listed):
        node = listed[place]
        if node == next_first:
            next_first += 1
            place += 1
            continue
        if not 0 <= node < next_first:
            raise InvalidPlanError(
                f"sequence, place {place}: node {next_first}, or one that has run, is needed, "
                f"found {node}"
            )
        unit = int(step.unit_of_node[node])
        whole = step.nodes_of_unit[unit].tolist()
        found = listed[place : place + len(whole)]
        if found != whole or whole[-1] >= next_first:
            raise InvalidPlanError(
                f"sequence, place {place}: the unit of node {node} runs again as a whole, nodes "
                f"{whole}, found {found}"
            )
        if not step.is_repeatable[unit]:
            raise InvalidPlanError(
                f"sequence, place {place}: node {node} ({step.graph.op[node]}) may not run again"
            )
        if unit in seen_again:
            raise InvalidPlanError(f"sequence, place {place}: node {node} runs a third time")
        seen_again.add(unit)
        place += len(whole)
    if next_first < nodes:
        raise InvalidPlanError(f"sequence: {nodes} first runs are needed, found {next_first}")
