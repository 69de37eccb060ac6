"""The moment of a run that is explained: its segments, live blocks and request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from gpu_runtime._core import DeviceMemory, OnlineAllocator, OnlineSegment, OnlineState
from gpu_runtime.fitting.live_peak import kind_of
from gpu_runtime.online.online_allocators import CORE, make_online
from gpu_runtime.online.pytorch_settings import SettingsError, pytorch_settings
from gpu_runtime.replaying.online_replay import replay_online
from gpu_runtime.replaying.recorded_check import CACHING, EXPANDABLE
from instances.convert.conversion import read_source
from instances.formats.call_frames import BETWEEN
from instances.formats.pytorch_snapshot import (
    PYTORCH_SNAPSHOT,
    AskedRequest,
    ExplainedSnapshot,
    read_explained_snapshot,
)
from instances.traces.allocation_trace import (
    MARK_FIELDS,
    NO_MODULE,
    REQUEST_FIELDS,
    AllocationTrace,
)
from instances.traces.memory_state import (
    MAPPED_KINDS,
    Block,
    BlockState,
    Segment,
    segments_at,
    serves_small,
)
from instances.traces.trace_requests import requests_of_trace
from planners.errors import InstanceError
from planners.files.formats import format_of
from planners.model.online_result import OnlineResult, OnlineTerms
from planners.model.request_sequence import RequestSequence
from planners.text.byte_units import counted

# PyTorch takes 20 MiB for a request below 10 MiB, and a multiple of 2 MiB for a larger one.
LEAST_SEGMENT, SEGMENT_STEP = 20 << 20, 2 << 20
SETTINGS_KEYS = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")
STATES = {
    OnlineState.ALLOCATED: BlockState.LIVE,
    OnlineState.PENDING: BlockState.WAITING,
    OnlineState.FREE: BlockState.FREE,
}


@dataclass(frozen=True)
class Moment:
    """The memory of a device at the moment that is explained."""

    # The history up to the request that failed, its last one; else the whole history.
    trace: AllocationTrace
    segments: Sequence[Segment]
    # The request that failed, or for which a replay reserved the most; None if neither is known.
    asked: AskedRequest | None
    # The allocator in use, and its settings as a user writes them.
    allocator: str
    settings: str
    when: str
    notes: Sequence[str] = ()
    # Bytes that PyTorch could reserve, and that others had; None if nobody tells.
    room: int | None = None
    outside: int | None = None
    # True if a limit of the process stood against the request; then `room` is the most it can be.
    is_limited: bool = False

    @property
    def failed(self) -> AskedRequest | None:
        return self.asked if self.asked and self.asked.device_free is not None else None


def find_moment(
    path: Path, device: int | None, memory: int | None, failure: int | None = None
) -> Moment:
    """Read a snapshot or a recording; `memory` has the bytes of the GPU, if a user gives them.

    It is the moment of a request that failed, by its number from 1, or the last one; or else the
    end of the history. Without segments the history is replayed: up to the request for which the
    memory does not suffice, or up to the most reserved bytes.
    """
    if format_of(path).name == PYTORCH_SNAPSHOT.name:
        told = read_explained_snapshot(path, device)
    elif (trace := read_source(path, device).trace) is not None:
        told = ExplainedSnapshot(trace)
    else:
        raise InstanceError(
            f"{path}: a memory snapshot or a recorded trace is needed, found another format"
        )
    if failure is not None and not 1 <= failure <= len(told.failed):
        raise InstanceError(
            f"{path}: --failure names one of the {len(told.failed)} requests that failed, from 1, "
            f"found {failure}"
        )
    number = len(told.failed) if failure is None else failure
    moment = moment_of(told, number, "at the end of the file", memory)
    if moment.segments or not told.trace.request_count:
        return moment
    return _with_room(_replayed(moment), memory)


def moment_of(
    told: ExplainedSnapshot, number: int, end: str, memory: int | None, free: int | None = None
) -> Moment:
    """Return the moment of the failure with a number from 1, or the end if it is 0.

    `memory` has the bytes of the GPU, and `free` those that it has free at the end.
    """
    trace, failed = told.trace, told.failed[number - 1] if number else None
    is_mapped = bool(np.isin(trace.segments[:, 1], MAPPED_KINDS).any())
    is_mapped |= any(segment.is_expandable for segment in told.segments)
    settings, notes = _settings_of(told.settings)
    event = trace.event_count if failed is None else failed.event
    notes += _notes(trace, len(told.failed), number, event)
    is_expandable = told.settings.get("expandable_segments", is_mapped)
    moment = Moment(
        _history_until(trace, event, failed),
        segments_at(trace, event, told.segments),
        failed,
        EXPANDABLE if is_expandable else CACHING,
        settings,
        end if failed is None else "at the request that failed",
        notes,
        memory,
    )
    return _with_room(moment, memory, free) if moment.segments else moment


def _with_room(moment: Moment, memory: int | None, free: int | None = None) -> Moment:
    """Return a moment with what PyTorch could reserve: what it had, and what was free."""
    free = free if moment.failed is None else moment.failed.device_free
    if free is None:
        return moment
    room = sum(segment.size for segment in moment.segments) + free
    outside = None if memory is None else max(0, memory - room)
    if moment.failed is not None and free >= (needed := _most_needed(moment.failed.size)):
        # The device had enough: a limit of the process stood against the request.
        room, outside = room - free + needed - 1, None
        room = room if memory is None else min(room, memory)
        return replace(moment, room=room, is_limited=True)
    return replace(moment, room=room, outside=outside)


def _most_needed(size: int) -> int:
    """Return the most bytes that PyTorch takes from the device for a request."""
    return max(LEAST_SEGMENT, -(-size // SEGMENT_STEP) * SEGMENT_STEP)


def _settings_of(settings: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return settings as a user writes them; none, and why, if they are not understood."""
    text = next((settings[key] for key in SETTINGS_KEYS if settings.get(key)), "")
    try:
        pytorch_settings(text)
    except SettingsError as error:
        return "", [f"replays leave the settings {text!r} out: {error}"]
    return str(text), []


def _notes(trace: AllocationTrace, failed: int, number: int, event: int) -> Iterator[str]:
    before, size = int(trace.before.sum()), int(trace.size[trace.before].sum())
    if before and before == trace.request_count:
        yield (
            "no history was recorded, so no requests can be replayed: call "
            "torch.cuda.memory._record_memory_history() before the model is made"
        )
    elif before:
        yield (
            f"the history is partial: {before:,} blocks of {size:,} bytes are older than its first "
            "event. A replay lays them end to end, so its reserved bytes are the least possible, "
            "and what passes in it may fail in the program"
        )
    if failed > 1 and number:
        yield f"{failed} requests failed; this is about number {number} (--failure names another)"
    if number and (later := int((trace.alloc >= event).sum())):
        yield f"the program went on after the failure, with {counted(later, 'request')} more"


def _history_until(
    trace: AllocationTrace, event: int, failed: AskedRequest | None
) -> AllocationTrace:
    """Return the history before an event, with a request that failed as its last one."""
    if event >= trace.event_count and failed is None:
        return trace
    kept = np.flatnonzero((trace.alloc < event) | trace.before)
    columns = {name: getattr(trace, name)[kept] for name in REQUEST_FIELDS}
    never = event + 1
    for name in ("free_requested", "freed"):
        columns[name] = np.where(columns[name] >= event, never, columns[name])
    if failed is not None:
        last = {"size": failed.size, "stream": failed.stream, "pool": failed.pool, "alloc": event,
                "alloc_module": NO_MODULE, "free_module": NO_MODULE, "free_requested": never,
                "freed": never}  # fmt: skip
        columns = {name: np.append(its, last.get(name, 0)) for name, its in columns.items()}
    marked = trace.mark_event < event
    return AllocationTrace(
        never,
        **columns,
        **{name: getattr(trace, name)[marked] for name in MARK_FIELDS},
        module_names=trace.module_names,
        segments=trace.segments[trace.segments[:, 0] < event],
        name=trace.name,
        origin=trace.origin,
    )


def _replayed(moment: Moment) -> Moment:
    """Return a moment with the segments of a replay: at a failure, else of the most reserved."""
    trace, asked, end = moment.trace, moment.failed, moment.when
    numbers = np.flatnonzero(trace.size > 0)
    if asked is None:
        requests = requests_of_trace(trace)
        result, allocator = _replay(requests, moment)
        row = result.out_of_memory_row
        end = "at the most reserved bytes" if row is None else "where memory ran out"
        at = int(result.reserved.argmax()) if row is None else row
        number = int(numbers[requests.request[at]])
        size, stream, pool = (int(its[number]) for its in (trace.size, trace.stream, trace.pool))
        asked = AskedRequest(int(requests.event[at]), size, stream, pool, trace.module_of(number))
        if row is not None and moment.room is not None:
            asked = replace(asked, device_free=moment.room - allocator.figures().reserved_bytes)
    has_failed = asked.device_free is not None
    history = _history_until(trace, asked.event + (not has_failed), None)
    again = requests_of_trace(history)
    result, allocator = _replay(again, moment)
    if has_failed and not asked.pool:
        allocator.give_back()  # as PyTorch does before it fails
    told = {}
    for each in again.live_after(again.row_count).tolist():
        # Requests keep their numbers, and the whole trace tells how long each lives.
        number = int(numbers[each])
        its = trace.module_of(number)
        if trace.iteration_count and BETWEEN not in its:
            its = f"{kind_of(trace, number, max(asked.event, 0))}{BETWEEN}{its}"
        told[int(result.addresses[each])] = its
    return replace(
        moment,
        trace=_history_until(trace, asked.event, asked) if has_failed else trace,
        segments=[part for each in allocator.segments() for part in _mapped_parts(each, told)],
        asked=asked,
        when=f"{end}, in a replay under {moment.allocator}: the file has no segments",
    )


def _replay(requests: RequestSequence, moment: Moment) -> tuple[OnlineResult, OnlineAllocator]:
    """Return the result of a replay, and the allocator as it was left."""
    _, make = make_online(moment.allocator, {"settings": moment.settings})
    made: list[OnlineAllocator] = []

    def keep(memory: DeviceMemory) -> OnlineAllocator:
        made.append(make(memory))
        return made[0]

    terms = OnlineTerms(capacity=moment.room, has_series=True)
    return replay_online(requests, terms, keep, CORE.find(moment.allocator).dictated), made[0]


def _mapped_parts(segment: OnlineSegment, told: Mapping[int, str]) -> Iterator[Segment]:
    """Yield the parts of a segment of a replay that have memory."""
    for has_memory, part in groupby(segment.blocks, lambda block: block.state in STATES):
        if has_memory:
            blocks = [
                Block(one.address, one.bytes, one.requested, STATES[one.state],
                      told.get(one.address, ""))
                for one in part
            ]  # fmt: skip
            size = sum(block.size for block in blocks)
            yield Segment(blocks[0].address, size, segment.stream, segment.pool, blocks,
                          serves_small(size, blocks))  # fmt: skip
