"""Which kernels of a forward pass run again, as a run needs to know it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpu_runtime.repeating.recorded_step import RELEASE, UNPACK
from planners.budget.repeatable_step import RepeatableStep, Sequence32
from planners.errors import GaplessError
from planners.model.columns import IntColumn

# Nodes of graphs that are no kernels: of recorded steps, and of extracted ones.
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


def decision_of_units(step: RepeatableStep, units: IntColumn) -> Decision:
    """Return the decision in which these units run again, each as late as possible."""
    sequence = step.late_sequence(step.choice(units))
    seconds, peak, _ = step.core.cost(sequence, 1)
    runs = np.bincount(sequence, minlength=step.graph.node_count)
    forward = [
        node for node in range(step.first_late_node) if step.graph.op[node] not in NO_KERNELS
    ]
    return Decision(
        ops=tuple(step.graph.op[node] for node in forward),
        unit=tuple(int(step.unit_of_node[node]) if runs[node] > 1 else -1 for node in forward),
        peak=int(peak),
        extra_seconds=float(seconds),
    )
