"""Which kernels of a forward pass run again, as a run needs to know it."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np

from gpu_runtime.repeating.recorded_step import RELEASE, UNPACK
from planners.errors import GaplessError
from planners.model.columns import IntColumn
from planners.recompute.forward_choice import ForwardChoice
from planners.recompute.repeatable_step import RepeatableStep, Sequence32

# Nodes of graphs that are not kernels: of recorded steps, and of extracted ones.
NO_KERNELS = frozenset({UNPACK, RELEASE, "input", "output"})


@dataclass(frozen=True)
class Decision:
    """The kernels of a forward pass, and those that run again in the backward pass.

    Parameters
    ----------
    ops
        Name of each kernel of the forward pass, in the order in which they run.
    unit
        For each kernel, the number of the unit with which it runs again, or -1.
    peak
        The most bytes of tensors of the step that are live at once, as predicted.
    extra_seconds
        Seconds of the second runs, as predicted.
    """

    ops: tuple[str, ...]
    unit: tuple[int, ...]
    peak: int
    extra_seconds: float

    @property
    def repeated_count(self) -> int:
        """Number of kernels that run again."""
        return sum(unit >= 0 for unit in self.unit)


def decision_of_sequence(step: RepeatableStep, sequence: Sequence32) -> Decision:
    """Return the decision of a planner's sequence.

    Raises
    ------
    GaplessError
        The sequence sends tensors to the host, which runs cannot do yet.
    """
    nodes = step.graph.node_count
    if (sequence >= nodes).any():
        raise GaplessError(
            "a run computes tensors again but does not send them to the host yet; ask for a "
            "sequence without copies (RepeatableStep with may_send=False)"
        )
    runs = np.bincount(sequence, minlength=nodes)
    return decision_of_units(step, np.unique(step.unit_of_node[runs > 1]))


def decision_of_choice(step: RepeatableStep, choice: ForwardChoice) -> tuple[Decision, int]:
    """Return the decision of a choice that was made elsewhere, and how many kernels it lacks.

    The choice may be that of another machine, for which PyTorch picks other kernels, and of a
    program that does more than the loss. So both orders of kernels are laid side by side. Where
    some kernels stand in place of others, one takes the part of one if there are as many, else all
    the part of all that run again. A kernel of the choice without a counterpart is lacking, and one
    without a counterpart there is kept.
    """
    here = _forward_kernels(step)
    there = [at for at, op in enumerate(choice.ops) if op not in NO_KERNELS]
    again = [choice.again[at] for at in there]
    names = [choice.ops[at] for at in there], [step.graph.op[node] for node in here]
    units: set[int] = set()
    found = 0
    for _, first, last, begin, end in SequenceMatcher(None, *names, False).get_opcodes():
        theirs, ours = again[first:last], step.unit_of_node[here[begin:end]]
        if len(theirs) != len(ours):
            theirs = [bool(theirs) and all(theirs)] * len(ours)
        chosen = [unit for unit, runs in zip(ours.tolist(), theirs, strict=True) if runs]
        may = [unit for unit in chosen if step.is_repeatable[unit]]
        units.update(may)
        if may == chosen and (may or not any(again[first:last])):
            found += sum(again[first:last])
        elif len(theirs) == last - first:
            found += len(may)
    decision = decision_of_units(step, np.array(sorted(units), dtype=np.int64))
    return decision, sum(choice.again) - found


def decision_of_units(step: RepeatableStep, units: IntColumn) -> Decision:
    """Return the decision in which these units run again, each as late as possible."""
    sequence = step.late_sequence(step.choice(units))
    seconds, peak, _ = step.core.cost(sequence, 1)
    runs = np.bincount(sequence, minlength=step.graph.node_count)
    forward = _forward_kernels(step)
    return Decision(
        ops=tuple(step.graph.op[node] for node in forward),
        unit=tuple(int(step.unit_of_node[node]) if runs[node] > 1 else -1 for node in forward),
        peak=int(peak),
        extra_seconds=float(seconds),
    )


def _forward_kernels(step: RepeatableStep) -> list[int]:
    return [node for node in range(step.first_late_node) if step.graph.op[node] not in NO_KERNELS]
