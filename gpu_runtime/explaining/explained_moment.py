"""The moment of a run that is explained: its segments, live blocks and request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gpu_runtime._core import DeviceMemory, OnlineAllocator, OnlineState
from gpu_runtime.fitting.live_peak import kind_of
from gpu_runtime.online.online_allocators import CORE, make_online
from gpu_runtime.online.pytorch_settings import SettingsError, pytorch_settings
from gpu_runtime.replaying.online_replay import replay_online
from gpu_runtime.replaying.recorded_check import CACHING, EXPANDABLE
from instances.convert.conversion import read_source
from instances.formats.call_frames import FrameKind
from instances.formats.pytorch_snapshot import (
    PYTORCH_SNAPSHOT,
    ExplainedSnapshot,
    FailedRequest,
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

SETTINGS_KEYS = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")
STATES = {
    OnlineState.ALLOCATED: BlockState.LIVE,
    OnlineState.PENDING: BlockState.WAITING,
    OnlineState.FREE: BlockState.FREE,
}


@dataclass(frozen=True)
class Asked:
    """The request that failed, or the one that made a replay reserve the most."""

    size: int
    stream: int
    pool: int
    place: str
    has_failed: bool


@dataclass(frozen=True)
class Moment:
    """The memory of a device at the moment that is explained."""

    # The history up to the moment, the request that failed as its last one.
    trace: AllocationTrace
    segments: Sequence[Segment]
    # The kind and the name of each place to which blocks refer.
    kinds: Sequence[str]
    places: Sequence[str]
    # The kind of each module of the trace; empty for a recording.
    module_kinds: Sequence[str]
    asked: Asked | None
    # The allocator in use, and its settings as a user writes them.
    allocator: str
    settings: str
    # Words for the moment, and lines on what the file does not tell.
    when: str
    notes: Sequence[str] = ()
    # Bytes that PyTorch could reserve, that the device had free, and that others had; None where
    # neither the file nor the user tells.
    room: int | None = None
    device_free: int | None = None
    outside: int | None = None


def find_moment(path: Path, device: int | None, memory: int | None) -> Moment:
    """Read a snapshot or a recording; `memory` has the bytes of the GPU, if a user gives them."""
    if format_of(path).name == PYTORCH_SNAPSHOT.name:
        told = read_explained_snapshot(path, device)
    else:
        trace = read_source(path, device).trace
        if trace is None:
            raise InstanceError(
                f"{path}: a memory snapshot or a recorded trace is needed, found another format"
            )
        told = ExplainedSnapshot(trace, (), (), (), {})
    return moment_of(told, memory)


def moment_of(told: ExplainedSnapshot, memory: int | None) -> Moment:
    """Return the moment of the last request that failed, or else the end of the history.

    Without segments, the history is replayed under the allocator: up to the request for which the
    memory does not suffice, or up to the most reserved bytes.
    """
    trace, failed = told.trace, told.failed[-1] if told.failed else None
    is_mapped = np.isin(trace.segments[:, 1], MAPPED_KINDS).any()
    is_mapped |= any(segment.is_expandable for segment in told.segments)
    is_expandable = bool(told.settings.get("expandable_segments", is_mapped))
    settings, notes = _settings_of(told.settings)
    event = trace.event_count if failed is None else failed.event
    segments = told.segments if failed is None else segments_at(trace, event, told.segments)
    moment = Moment(
        _history_until(trace, event, failed),
        segments,
        told.kinds,
        trace.module_names,
        told.kinds,
        None if failed is None else _failed(told.trace, failed),
        EXPANDABLE if is_expandable else CACHING,
        settings,
        "at the end of the file" if failed is None else "at the request that failed",
        [*notes, *_notes_on_history(trace, len(told.failed))],
        memory,
    )
    if not segments and trace.request_count:
        return _replayed(moment)
    reserved = sum(segment.size for segment in segments)
    if failed is None:
        return moment
    room = reserved + failed.device_free
    outside = None if memory is None else max(0, memory - room)
    return replace(moment, room=room, device_free=failed.device_free, outside=outside)


def _settings_of(settings: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return settings as a user writes them; none, and why, if they are not understood."""
    text = next((settings[key] for key in SETTINGS_KEYS if settings.get(key)), "")
    try:
        pytorch_settings(text)
    except SettingsError as error:
        return "", [f"replays leave the settings {text!r} out: {error}"]
    return str(text), []


def _notes_on_history(trace: AllocationTrace, failed: int) -> list[str]:
    notes = []
    before = int(trace.before.sum())
    if failed > 1:
        notes.append(f"{failed} requests failed; this is about the last one")
    if before and before == trace.request_count:
        notes.append(
            "the file has no history, so nothing can be replayed: call "
            "torch.cuda.memory._record_memory_history() before the model is made"
        )
    elif before:
        size = int(trace.size[trace.before].sum())
        notes.append(
            f"the history is partial: {before:,} blocks of {size:,} bytes are older than its first "
            "event. A replay lays them end to end, so its reserved bytes are the least possible, "
            "and what passes in it may fail in the program"
        )
    return notes


def _failed(trace: AllocationTrace, failed: FailedRequest) -> Asked:
    place = "" if failed.place == NO_MODULE else trace.module_names[failed.place]
    return Asked(failed.size, failed.stream, failed.pool, place, has_failed=True)


def _request(trace: AllocationTrace, request: int, *, has_failed: bool) -> Asked:
    module = int(trace.alloc_module[request])
    place = "" if module == NO_MODULE else trace.module_names[module]
    size, stream, pool = (int(its[request]) for its in (trace.size, trace.stream, trace.pool))
    return Asked(size, stream, pool, place, has_failed)


def _history_until(
    trace: AllocationTrace, event: int, failed: FailedRequest | None
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
                "alloc_module": failed.place, "free_module": NO_MODULE, "free_requested": never,
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
    """Return the moment of the most reserved bytes in a replay, or where memory runs out."""
    trace, requests = moment.trace, requests_of_trace(moment.trace)
    terms = OnlineTerms(capacity=moment.room, has_series=True)
    result, _ = _replay(requests, moment, terms)
    row = result.out_of_memory_row
    at = int(result.reserved.argmax()) if row is None else row
    request = int(requests.request[at])
    event = int(requests.event[at]) + (row is None)
    asked = np.flatnonzero(trace.size > 0)
    until = _history_until(trace, event, None)
    if row is not None:
        one = _request(trace, int(asked[request]), has_failed=True)
        failed = FailedRequest(event, one.size, 0, one.stream, one.pool, NO_MODULE)
        until = _history_until(trace, event, failed)
    again = requests_of_trace(until)
    result, allocator = _replay(again, moment, terms)
    live = again.live_after(again.row_count - (row is not None)).tolist()
    numbers = np.flatnonzero(until.size > 0)
    # The requests until then have the same numbers in the whole trace, which tells their lives.
    labels = {each: _label(moment, int(numbers[each]), event) for each in live}
    names = sorted(set(labels.values()))
    place_at = {int(result.addresses[each]): names.index(label) for each, label in labels.items()}
    segments = [piece for each in allocator.segments() for piece in _pieces(each, place_at)]
    reserved = sum(segment.size for segment in segments)
    end = "the request for which memory ran out" if row is not None else "the most reserved bytes"
    return replace(
        moment,
        trace=until,
        segments=segments,
        kinds=[kind for kind, _ in names],
        places=[place for _, place in names],
        asked=_request(trace, int(asked[request]), has_failed=row is not None),
        when=f"at {end}, in a replay under {moment.allocator}: the file has no segments",
        device_free=None if moment.room is None else moment.room - reserved,
    )


def _replay(
    requests: RequestSequence, moment: Moment, terms: OnlineTerms
) -> tuple[OnlineResult, OnlineAllocator]:
    _, make = make_online(moment.allocator, {"settings": moment.settings})
    made: list[OnlineAllocator] = []

    def keep(memory: DeviceMemory) -> OnlineAllocator:
        made.append(make(memory))
        return made[0]

    result = replay_online(requests, terms, keep, CORE.find(moment.allocator).dictated)
    return result, made[0]


def _label(moment: Moment, request: int, event: int) -> tuple[str, str]:
    trace = moment.trace
    module = int(trace.alloc_module[request])
    place = "" if module == NO_MODULE else trace.module_names[module]
    if trace.iteration_count:
        return kind_of(trace, request, max(event - 1, 0)), place
    return moment.kinds[module] if place and moment.kinds else FrameKind.UNTOLD, place


def _pieces(segment: Any, place_at: Mapping[int, int]) -> list[Segment]:
    """Return the parts of a segment of a replay that have memory."""
    parts: list[list[Block]] = [[]]
    for block in segment.blocks:
        if block.state not in STATES:
            parts.append([])
            continue
        state = STATES[block.state]
        requested = block.requested if state is BlockState.LIVE else 0
        place = place_at.get(block.address, NO_MODULE)
        parts[-1].append(Block(block.address, block.bytes, requested, state, place))
    return [
        Segment(blocks[0].address, size, segment.stream, segment.pool, blocks,
                is_small=serves_small(size, blocks))
        for blocks in parts
        if blocks and (size := sum(block.size for block in blocks))
    ]  # fmt: skip
