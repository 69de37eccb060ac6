"""The numbers of microbatches and iterations, from the phases of a run alone."""

from __future__ import annotations

from collections.abc import Sequence

from instances.traces.allocation_trace import Phase


def number_phases(phases: Sequence[Phase]) -> tuple[list[int], list[int]]:
    """Return the microbatch and the iteration of each phase of a run.

    An iteration ends where a forward pass follows the optimizer. Within one, the n-th forward and
    the n-th backward pass belong to the n-th microbatch: so they do where microbatch follows
    microbatch, and in a pipeline that keeps their order. Both count from 0.
    """
    microbatches: list[int] = []
    iterations: list[int] = []
    iteration = 0
    seen = dict.fromkeys(Phase, 0)
    previous = Phase.FORWARD
    for phase in phases:
        if phase is Phase.FORWARD and previous is Phase.OPTIMIZER:
            iteration += 1
            seen = dict.fromkeys(Phase, 0)
        microbatches.append(seen[phase])
        iterations.append(iteration)
        seen[phase] += 1
        previous = phase
    return microbatches, iterations
