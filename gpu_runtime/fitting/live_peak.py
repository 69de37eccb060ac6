"""The moment of the most live bytes in a trace, and the blocks that live then."""

from __future__ import annotations

import enum
import re
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from instances.traces.allocation_trace import NO_MODULE, AllocationTrace, Phase, Role
from planners.model.columns import IntColumn

# Layers of one kind form one group: their numbers are left out of the names.
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)")

# The parts of a run: what comes before the steps, and the steps.
SET_UP = "set-up"
PARTS = (SET_UP, "first step", "later steps")
BEFORE = "before the steps"
EARLIER = "an earlier step"


class Kind(enum.StrEnum):
    """The kind of a block's contents, by its role and its lifetime."""

    # There before the first step: parameters and buffers.
    WEIGHTS = "weights"
    GRADIENTS = "gradients"
    OPTIMIZER_STATES = "optimizer states"
    # Allocated in a forward pass, and alive after it.
    ACTIVATIONS = "activations"
    # Activations that a step makes before it first calls a module.
    INPUTS = "inputs"
    # From an earlier step, or never freed: what libraries and programs keep.
    KEPT = "kept"
    # All others: gradients of activations, what is recomputed, workspaces.
    TEMPORARIES = "temporaries"


KIND_OF_ROLE = {
    Role.GRADIENT: Kind.GRADIENTS,
    Role.STATE: Kind.OPTIMIZER_STATES,
    Role.UPDATE: Kind.TEMPORARIES,
}


@dataclass(frozen=True)
class LiveKind:
    """Live blocks of one kind, or of one place."""

    kind: str
    size: int
    blocks: int


@dataclass(frozen=True)
class LiveGroup:
    """Blocks that live at the peak, of one kind of module and of one time."""

    # When they were allocated: :data:`BEFORE`, :data:`EARLIER`, or the phase of the step.
    since: str
    # With ``*`` in place of a layer's number; empty outside of modules.
    module: str
    size: int
    blocks: int


@dataclass(frozen=True)
class LivePeak:
    """The peak of live bytes, as requested, and its first moment."""

    size: int
    # Step, from 1 on, and phase of that moment; 0 and empty before the first marked step.
    step: int
    phase: str
    # The largest first.
    groups: tuple[LiveGroup, ...]
    kinds: tuple[LiveKind, ...] = ()
    # The event of that moment.
    event: int = 0
    # The peak in each of :data:`PARTS`.
    parts: tuple[int, ...] = ()


def find_live_peak(trace: AllocationTrace) -> LivePeak:
    change = np.zeros(trace.event_count + 1, dtype=np.int64)
    # Blocks from before the trace live from its first event on.
    np.add.at(change, trace.alloc, trace.size)
    np.add.at(change, trace.free_requested, -trace.size)
    live = np.cumsum(change[:-1])
    event = int(live.argmax()) if len(live) else 0
    alive = (trace.alloc <= event) & (trace.free_requested > event)
    mark = _mark_of(trace, event)
    by_group: dict[tuple[str, str], list[int]] = defaultdict(list)
    by_kind: dict[Kind, list[int]] = defaultdict(list)
    for request in np.flatnonzero(alive & (trace.size > 0)).tolist():
        size = int(trace.size[request])
        by_group[_since(trace, request, mark), _module(trace, request)].append(size)
        by_kind[kind_of(trace, request, event)].append(size)
    groups = [LiveGroup(*key, sum(sizes), len(sizes)) for key, sizes in by_group.items()]
    groups.sort(key=lambda group: (-group.size, group.since, group.module))
    kinds = [LiveKind(kind, sum(sizes), len(sizes)) for kind, sizes in by_kind.items()]
    kinds.sort(key=lambda one: (-one.size, one.kind))
    return LivePeak(
        size=int(live.max(initial=0)),
        step=0 if mark < 0 else int(trace.mark_iteration[mark]) + 1,
        phase="" if mark < 0 else _phase(trace, mark),
        groups=tuple(groups),
        kinds=tuple(kinds),
        event=event,
        parts=peaks_of_parts(live, trace.iteration_begins),
    )


def peaks_of_parts(after: IntColumn, begins: IntColumn) -> tuple[int, ...]:
    """Return the largest of the bytes after each row in each part; 0 for a part without rows."""
    bounds = [0, *begins[: len(PARTS) - 1].tolist()]
    bounds += [len(after)] * (len(PARTS) + 1 - len(bounds))
    return tuple(int(after[begin:end].max(initial=0)) for begin, end in pairwise(bounds))


def _mark_of(trace: AllocationTrace, event: int) -> int:
    """Return the mark of the phase in which an event happens; -1 before the first."""
    return int(np.searchsorted(trace.mark_event, event, side="right")) - 1


def _phase(trace: AllocationTrace, mark: int) -> str:
    return Phase(int(trace.mark_phase[mark])).name.lower()


def kind_of(trace: AllocationTrace, request: int, event: int) -> Kind:
    """Return the kind of a block that lives in the step of an event."""
    role = Role(int(trace.role[request]))
    if role is not Role.NONE:
        return KIND_OF_ROLE[role]
    since = _since(trace, request, _mark_of(trace, event))
    if since == BEFORE:
        return Kind.WEIGHTS
    if since == EARLIER or trace.free_requested[request] == trace.event_count:
        return Kind.KEPT
    mark = _mark_of(trace, int(trace.alloc[request]))
    end = int(np.append(trace.mark_event, trace.event_count)[mark + 1])
    if trace.mark_phase[mark] != Phase.FORWARD or trace.free_requested[request] < end:
        return Kind.TEMPORARIES
    first, behind = np.searchsorted(trace.alloc, [trace.mark_event[mark], end])
    within = np.flatnonzero(trace.alloc_module[first:behind] != NO_MODULE)
    is_input = len(within) > 0 and request < first + within[0]
    return Kind.INPUTS if is_input else Kind.ACTIVATIONS


def _since(trace: AllocationTrace, request: int, peak_mark: int) -> str:
    mark = -1 if trace.before[request] else _mark_of(trace, int(trace.alloc[request]))
    if mark < 0:
        return BEFORE
    if trace.mark_iteration[mark] < trace.mark_iteration[peak_mark]:
        return EARLIER
    return _phase(trace, mark)


def _module(trace: AllocationTrace, request: int) -> str:
    return _NUMBER.sub("*", trace.module_of(request))
