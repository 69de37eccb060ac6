"""The nodes of a forward pass and which of them run again, as the file of an answer has them.

The graph of an answer has no work, and the nodes of its runs are numbered anew. So the choice is
in the origin, as words that a program which runs the step can follow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planners.errors import InstanceError
from planners.model.problem import Problem, Scalar
from planners.recompute.repeatable_step import RepeatableStep, Sequence32, repeated_problem

LIMIT, FORWARD_PASS, SENT = "limit", "forward_pass", "sent_tensors"
# Stands behind the name of a node that runs again.
AGAIN = "+"


@dataclass(frozen=True)
class ForwardChoice:
    """The nodes of a forward pass that run again, to stay within a limit of bytes."""

    limit: int
    # Name of each node of the forward pass, in the order in which they run.
    ops: tuple[str, ...]
    # Whether each of them runs again.
    again: tuple[bool, ...]


def answer_problem(step: RepeatableStep, sequence: Sequence32, limit: int) -> Problem:
    """Return the problem of a sequence, with the choice in its origin."""
    choice = step.choice_of(sequence)
    units, ops = step.unit_of_node[: step.first_late_node].tolist(), step.graph.op
    words = [
        "_".join(ops[node].split()) + AGAIN * int(choice.repeated[unit])
        for node, unit in enumerate(units)
    ]
    said: dict[str, Scalar] = {
        LIMIT: limit,
        FORWARD_PASS: " ".join(words),
        SENT: int(np.sum(choice.sent)),
    }
    return repeated_problem(step, sequence, said)


def forward_choice_of(problem: Problem) -> ForwardChoice:
    """Return the choice that the problem of an answer has in its origin."""
    limit, words, sent = map(problem.origin.get, (LIMIT, FORWARD_PASS, SENT))
    if not (type(limit) is int and isinstance(words, str) and type(sent) is int):
        raise InstanceError(
            f"{problem.name}: fields origin.{LIMIT}, origin.{FORWARD_PASS} and origin.{SENT}, "
            f"which gapless instances recompute -o writes, are needed, found {limit!r}, "
            f"{words!r:.60} and {sent!r}"
        )
    if sent:
        raise InstanceError(
            f"{problem.name}: an answer that sends nothing to the host is needed, because a run "
            f"only computes again, found {sent} tensors that are sent; ask without --offload"
        )
    nodes = words.split()
    return ForwardChoice(
        limit,
        tuple(node.removesuffix(AGAIN) for node in nodes),
        tuple(node.endswith(AGAIN) for node in nodes),
    )
