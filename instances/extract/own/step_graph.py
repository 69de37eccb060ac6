"""The graph of a step that was run: the kernels of its last iteration and the storages they use.

Note: a graph from a run
------------------------
Rationale. A registered model is traced as a function, with an optimizer written as one. A loop of
a user's is no function: it updates in place, adds up gradients and calls any optimizer.

Approach. The eager run is recorded operator by operator, and a block of its trace is a storage of
the graph. What is there before the last step and after it is persistent; what is there before and
not after, such as gradients that a step begins by dropping, comes with the batch; what is there
after and not before is returned. Within the step a block lives from its first operator to its
last, not until Python lets go of it.

Limits. One stream computes, as in the run; nothing communicates. Kernels whose results nobody
uses are in the graph, because eager programs run them.
"""

from __future__ import annotations

import numpy as np

from instances.extract.own.tracing import OwnRun
from instances.extract.tracing.storages import StepPhase, Trace, TracedOp
from instances.traces.allocation_trace import (
    NO_MODULE,
    Phase,
    iteration_window,
    persistent_requests,
)


def step_graph(run: OwnRun) -> Trace:
    """Return the operators of the last step; every block of the trace is a storage."""
    trace = run.trace
    begin, end = iteration_window(trace, -1)
    number = {id(request): index for index, request in enumerate(run.requests)}
    names = [""] * len(number)
    ops: list[TracedOp] = []
    read: set[int] = set()
    for index, operator in enumerate(run.operators):
        inputs, mutated, outputs = (
            tuple(number[id(request)] for request in requests)
            for requests in (operator.inputs, operator.mutated, operator.outputs)
        )
        read.update(inputs)
        name = f"{operator.name}_{index}"
        # Before the operator there was at least the mark at which its phase began.
        mark = int(np.searchsorted(trace.mark_event, operator.event_count)) - 1
        phase = StepPhase[Phase(int(trace.mark_phase[mark])).name]
        ops.append(TracedOp(name, operator.name, phase, inputs, mutated, outputs))
        for place, storage in enumerate(outputs):
            module = int(trace.alloc_module[storage])
            within = "" if module == NO_MODULE else f"{trace.module_names[module]}."
            names[storage] = f"{within}{name}{f'.{place}' if place else ''}"
    persistent = persistent_requests(trace, -1)
    given = np.flatnonzero((trace.alloc < begin) & (trace.freed > begin) & ~persistent)
    returned = np.flatnonzero((trace.alloc >= begin) & (trace.freed >= end))
    batch = tuple(storage for storage in given.tolist() if storage in read)
    for storage in batch:
        names[storage] = f"given_{storage}"
    return Trace(
        ops=tuple(ops),
        size=tuple(trace.size.tolist()),
        name=tuple(names),
        batch=batch,
        persistent=frozenset(np.flatnonzero(persistent).tolist()),
        updates={},
        gradients=(),
        returned=tuple(returned.tolist()),
    )
