"""The rules that a sequence of a repeatable step obeys, checked one by one."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from planners.errors import InvalidPlanError
from planners.model.columns import IntColumn
from planners.recompute.repeatable_step import RepeatableStep, Sequence32


def checked_sequence(step: RepeatableStep, sequence: Sequence32 | IntColumn) -> Sequence32:
    """Return a sequence as int32 if it gives the same results as the step, else raise.

    ``InvalidPlanError`` names the first rule that the sequence breaks.

    First runs are in the order of the step, and all of them are there. A second run is of a unit
    that may run again; its nodes follow each other, in order, behind their first runs. A late
    node, and a second run, then reads bytes that the same nodes have made: of a tensor that was
    made again, all changes were made again, since they are of the same unit. A tensor is sent away
    once at most, behind all nodes of the forward pass that use it, and fetched once after that;
    nobody uses it in between, and it is not made again.
    """
    nodes = step.graph.node_count
    whole_sequence = np.asarray(sequence).tolist()
    _check_copies(step, whole_sequence)
    next_first = 0
    seen_again: set[int] = set()
    place = 0
    listed = [entry for entry in whole_sequence if entry < nodes]
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
    return np.array(whole_sequence, dtype=np.int32)


def _check_copies(step: RepeatableStep, listed: list[int]) -> None:
    """Check the entries of a sequence that send tensors away and fetch them."""
    graph = step.graph
    nodes, tensors = graph.node_count, graph.tensor_count
    uses: dict[int, list[int]] = {}
    sent: dict[int, int] = {}
    fetched: dict[int, int] = {}
    for place, entry in enumerate(listed):
        if not 0 <= entry < nodes + 2 * tensors:
            raise InvalidPlanError(
                f"sequence, place {place}: an entry below {nodes + 2 * tensors} is needed, found "
                f"{entry}"
            )
        if entry < nodes:
            uses.setdefault(entry, []).append(place)
            continue
        copies = sent if entry < nodes + tensors else fetched
        tensor = (entry - nodes) % tensors
        if tensor in copies:
            raise InvalidPlanError(f"sequence, place {place}: a second copy of tensor {tensor}")
        copies[tensor] = place
    if sent.keys() != fetched.keys():
        odd = min(sent.keys() ^ fetched.keys())
        raise InvalidPlanError(f"sequence: tensor {odd} must be both sent away and fetched")
    for tensor, place in sent.items():
        if not step.is_sendable[tensor]:
            raise InvalidPlanError(f"sequence, place {place}: tensor {tensor} may not be sent away")
        maker = int(graph.producer[tensor])
        users = [maker, *graph.consumers_of(tensor).tolist()]
        places = [use for user in users for use in uses.get(user, [])]
        if len(uses.get(maker, [])) > 1:
            raise InvalidPlanError(f"sequence, place {place}: tensor {tensor} is made again")
        between = [use for use in places if place < use < fetched[tensor]]
        early = [use for user in users if user < step.first_late_node for use in uses[user][:1]]
        if between or fetched[tensor] < place or max(early) > place:
            raise InvalidPlanError(
                f"sequence, place {place}: tensor {tensor} is used while it is away"
            )


def require_placed(step: RepeatableStep, sequence: Sequence32, offsets: IntColumn) -> None:
    """Raise ``InvalidPlanError`` if a run uses a tensor off its pin, or a chain that is torn.

    This goes through the runs as a device would, and takes nothing from the chains and pins of the
    problem that was planned: of its tensors, the first are those of the step, and then one follows
    for each further copy, in the order in which the copies are made.
    """
    graph, problem = step.graph, step.problem
    if not problem.contiguous and (problem.pinned < 0).all():
        return
    nodes, tensors = graph.node_count, graph.tensor_count
    makes: list[list[int]] = [[] for _ in range(nodes + 2 * tensors)]
    uses: list[set[int]] = [set() for _ in range(nodes + 2 * tensors)]
    for tensor, maker in enumerate(graph.producer.tolist()):
        fetch = nodes + tensors + tensor
        makes[maker].append(tensor)
        makes[fetch].append(tensor)
        for node in (maker, fetch, *graph.consumers_of(tensor).tolist()):
            uses[node].add(tensor)
    size, pin, address = problem.size.tolist(), problem.pinned.tolist(), offsets.tolist()
    front_of = {back: front for chain in problem.contiguous for front, back in pairwise(chain)}
    found: dict[int, int] = {}
    copies = tensors
    for place, entry in enumerate(sequence.tolist()):
        for tensor in makes[entry]:
            is_further = tensor in found
            found[tensor] = address[copies if is_further else tensor]
            copies += is_further
        for tensor in uses[entry]:
            needed = {} if pin[tensor] < 0 else {"its pin": pin[tensor]}
            front = front_of.get(tensor, -1)
            if front in uses[entry]:
                needed[f"the end of tensor {front} of its chain"] = found[front] + size[front]
            for what, right in needed.items():
                if found[tensor] != right:
                    raise InvalidPlanError(
                        f"sequence, place {place}: tensor {tensor} must be at {right}, {what}, "
                        f"found at {found[tensor]}"
                    )
