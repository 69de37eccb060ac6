"""Says if the traced steps are of kinds that repeat, so that more steps would show nothing new."""

from __future__ import annotations

from instances.traces.allocation_trace import AllocationTrace, Phase, iteration_phases


def notes_on_kinds(trace: AllocationTrace) -> list[str]:
    """Return a line if the last step asks for memory as none before it.

    Steps are of one kind if their forward and backward passes request the same sizes in the same
    order. What follows the last update, such as an evaluation, is left out, and so is the first
    step. The last one may have begun only.
    """
    steps = trace.iterations.tolist()[1:]
    *before, last = [_sizes(trace, step) for step in steps] or [[]]
    if not before or any(sizes[: len(last)] == last for sizes in before):
        return []
    return [
        f"step {steps[-1] + 1:,} is unlike those before it: steps that were not traced may need "
        f"more; trace more by --steps"
    ]


def _sizes(trace: AllocationTrace, step: int) -> list[int]:
    phases = trace.mark_phase[trace.mark_iteration == step].tolist()
    asked = zip(phases, iteration_phases(trace, step), strict=True)
    requests = [requests for phase, requests in asked if phase != Phase.OPTIMIZER]
    return [size for part in requests for size in trace.size[part].tolist()]
