"""Says if the traced steps are of kinds that repeat, so that more steps would show nothing new."""

from __future__ import annotations

from collections import Counter

import numpy as np

from instances.traces.allocation_trace import AllocationTrace, Phase, iteration_phases


def notes_on_kinds(trace: AllocationTrace) -> list[str]:
    """Return a line if the last step asks for memory as none before it.

    A step is like another one if the other's forward and backward passes request as many blocks of
    each size or more. An evaluation behind the last update is left out, within its step or alone.
    """
    trained = np.unique(trace.mark_iteration[trace.mark_phase == Phase.BACKWARD])
    steps = trained if len(trained) else trace.iterations
    *before, last = [_sizes(trace, step) for step in steps.tolist()] or [Counter[int]()]
    if len(before) < 2 or any(last <= sizes for sizes in before):
        return []
    return [
        f"step {len(before) + 1:,} is unlike those before it: steps that were not traced may need "
        f"more; trace more by --steps"
    ]


def _sizes(trace: AllocationTrace, step: int) -> Counter[int]:
    phases = trace.mark_phase[trace.mark_iteration == step].tolist()
    asked = zip(phases, iteration_phases(trace, step), strict=True)
    requests = [requests for phase, requests in asked if phase != Phase.OPTIMIZER]
    return Counter(size for part in requests for size in trace.size[part].tolist())
