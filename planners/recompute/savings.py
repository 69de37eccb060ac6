"""The bytes that second runs save where most bytes live, and the least choice that is enough."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planners.model.columns import IntColumn
from planners.recompute.limit_planner import LimitQuestion
from planners.recompute.repeatable_step import Choice

# Halvings of the distance between a choice that saves too little and one that saves enough.
HALVINGS = 12


@dataclass(frozen=True, eq=False)
class Savings:
    """Groups of units that run again together, and what each saves and costs."""

    units: list[IntColumn]
    # Bytes of a group's results that live at the largest place of the step and are read behind it.
    saved_bytes: IntColumn
    seconds: NDArray[np.float64]


def savings(question: LimitQuestion) -> Savings:
    """Return what each repeatable unit saves, with the units that only it needs.

    A unit whose results the backward pass does not read is in the group of the unit that reads
    them, because its results would have to be kept otherwise.
    """
    step, graph = question.step, question.step.graph
    largest = int(np.argmax(step.live_bytes))
    makers = step.unit_of_tensor
    read_late = step.first_late_use < graph.node_count
    _, end = graph.lifetimes()
    saved = read_late & (graph.producer <= largest) & (end > largest + 1)
    saved_bytes = np.zeros(step.unit_count, dtype=np.int64)
    np.add.at(saved_bytes, makers[saved], step.problem.size[saved])
    # For each unit, the units whose results it reads and nobody reads late.
    makers_of: list[set[int]] = [set() for _ in range(step.unit_count)]
    needed_late = np.zeros(step.unit_count, dtype=bool)
    needed_late[makers[read_late]] = True
    readers = step.unit_of_node[graph.consumer_nodes]
    for tensor, reader in zip(graph.consumer_tensors.tolist(), readers.tolist(), strict=True):
        maker = int(makers[tensor])
        if maker != reader and step.is_repeatable[maker] and not needed_late[maker]:
            makers_of[reader].add(maker)
    groups = []
    for unit in np.flatnonzero(step.is_repeatable & (saved_bytes > 0)).tolist():
        group, waiting = {unit}, [unit]
        while waiting:
            question.require_time()
            new = makers_of[waiting.pop()] - group
            group |= new
            waiting += new
        groups.append(np.array(sorted(group), dtype=np.int64))
    return Savings(
        groups,
        np.array([saved_bytes[group].sum() for group in groups], dtype=np.int64),
        np.array([step.unit_seconds[group].sum() for group in groups]),
    )


def least_saving(question: LimitQuestion, choose: Callable[[int], Choice | None]) -> Choice | None:
    """Return the units of the smallest saving, among those tried, that meets the limit.

    A choice saves other bytes at other places, and a second run needs bytes of its own. So the
    saving that `choose` is asked for, at the largest place, is found by halving, until the time is
    over.
    """
    peak = int(question.step.live_bytes.max(initial=0))
    most = peak
    least = max(0, peak - question.limit)
    best = None
    wanted = least
    for _ in range(HALVINGS):
        try:
            choice = choose(wanted)
        except TimeoutError:
            break
        if choice is None or question.is_met(choice):
            most = wanted
            best = best if choice is None else choice
        else:
            least = wanted
        if most - least <= max(1, peak >> HALVINGS):
            break
        wanted = (least + most) // 2
    return best
