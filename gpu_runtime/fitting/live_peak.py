"""The moment of the most live bytes in a trace, and the blocks that live then."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from instances.traces.allocation_trace import NO_MODULE, AllocationTrace, Phase

# Layers of one kind form one group: their numbers are left out of the names.
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)")

BEFORE = "before the steps"
EARLIER = "an earlier step"


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


def find_live_peak(trace: AllocationTrace) -> LivePeak:
    change = np.zeros(trace.event_count + 1, dtype=np.int64)
    # Blocks from before the trace live from its first event on.
    np.add.at(change, trace.alloc, trace.size)
    np.add.at(change, trace.free_requested, -trace.size)
    live = np.cumsum(change[:-1])
    event = int(live.argmax()) if len(live) else 0
    alive = (trace.alloc <= event) & (trace.free_requested > event)
    mark = _mark_of(trace, event)
    sizes: dict[tuple[str, str], int] = defaultdict(int)
    blocks: dict[tuple[str, str], int] = defaultdict(int)
    for request in np.flatnonzero(alive & (trace.size > 0)).tolist():
        key = _since(trace, request, mark), _module(trace, request)
        sizes[key] += int(trace.size[request])
        blocks[key] += 1
    groups = [LiveGroup(*key, sizes[key], blocks[key]) for key in sizes]
    groups.sort(key=lambda group: (-group.size, group.since, group.module))
    return LivePeak(
        size=int(live.max(initial=0)),
        step=0 if mark < 0 else int(trace.mark_iteration[mark]) + 1,
        phase="" if mark < 0 else _phase(trace, mark),
        groups=tuple(groups),
    )


def _mark_of(trace: AllocationTrace, event: int) -> int:
    """Return the mark of the phase in which an event happens; -1 before the first."""
    return int(np.searchsorted(trace.mark_event, event, side="right")) - 1


def _phase(trace: AllocationTrace, mark: int) -> str:
    return Phase(int(trace.mark_phase[mark])).name.lower()


def _since(trace: AllocationTrace, request: int, peak_mark: int) -> str:
    mark = -1 if trace.before[request] else _mark_of(trace, int(trace.alloc[request]))
    if mark < 0:
        return BEFORE
    if trace.mark_iteration[mark] < trace.mark_iteration[peak_mark]:
        return EARLIER
    return _phase(trace, mark)


def _module(trace: AllocationTrace, request: int) -> str:
    module = int(trace.alloc_module[request])
    return "" if module == NO_MODULE else _NUMBER.sub("*", trace.module_names[module])
