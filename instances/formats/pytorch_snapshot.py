"""PyTorch's memory snapshots: read as a trace, and written to show a plan in PyTorch's viewer."""

from __future__ import annotations

import pickle
import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from instances.formats.call_frames import CallPlaces
from instances.formats.json_stream import JsonStream, PlainStream
from instances.formats.plain_pickle import load_plain
from instances.formats.plan_target import name_of_tensor, occupied_steps, stream_of_tensors
from instances.formats.trace_format import trace_format
from instances.traces.allocation_trace import NO_MODULE, AllocationTrace
from instances.traces.event_log import (
    ALLOC,
    COMMON_POOL,
    EVENT_KINDS,
    FREE_COMPLETED,
    EventLog,
    trace_of_events,
)
from instances.traces.memory_state import PLANNED_POOL, Block, BlockState, Segment
from planners.errors import InstanceError, errors_at
from planners.files.bounded_file import GZIP_MAGIC, unpacked_pieces
from planners.files.file_limits import Allowance, ReadingWork
from planners.files.formats import unpacked_head
from planners.files.output_file import write_output
from planners.model.columns import INT64_MAX, IntColumn
from planners.model.plan import Plan
from planners.model.problem import Problem
from planners.text.plain_text import shown

KEYS = ("segments", "device_traces")
# Words in the first bytes of a snapshot as JSON, or of a list of segments.
JSON_WORDS = (b'"segments"', b'"device_traces"', b'"segment_type"')
PICKLE_START = b"\x80"
END_OF_ADDRESSES = 1 << 64
# JSON is read event by event, so that its length takes time and little memory.
UNPACKED = Allowance("unpacked bytes", free=1 << 27, for_bytes=1, more=64, most=1 << 34)
# States of blocks that hold memory: allocated, or freed and waiting for another stream. The second
# state has two names in different versions of PyTorch.
HELD_STATES = {
    "active_allocated": BlockState.LIVE,
    "active_pending_free": BlockState.WAITING,
    "active_awaiting_free": BlockState.WAITING,
}
# A block takes at least 40 bytes of a snapshot.
BLOCKS = Allowance("blocks of segments", free=1 << 17, for_bytes=8)
# Gzip packs a snapshot by some ten to twenty times.
PACKED_TIMES = 16
SEGMENT_ALLOC = EVENT_KINDS.index("segment_alloc")
KIND_OF_ACTION = {action: kind for kind, action in enumerate(EVENT_KINDS)}


def read_pytorch_snapshot_trace(path: Path, device: int | None = None) -> AllocationTrace:
    """Read the history of one device out of a snapshot.

    The file is a pickle or JSON, gzipped or not, of a snapshot or of its list of segments alone.
    PyTorch keeps the last events of a run, so the history may start anywhere. A block that is freed
    without an allocation was there before, and its free has its size. A block that the snapshot
    shows as allocated, and that no event names, was there from the first event to the last.
    If `device` is None, exactly one device must be in use. Sizes are the bytes that were requested.
    The highest bit of an address is left out. The reader executes no code from the file.
    """
    with errors_at(path):
        snapshot = _read(path, explained=False)
        number = snapshot.device_in_use() if device is None else device
        return snapshot.trace_of_device(number, path)


@dataclass(frozen=True)
class AskedRequest:
    """A request, which failed if it is told what the device had free."""

    # The number of events before it.
    event: int
    size: int
    stream: int
    pool: int
    told: str
    device_free: int | None = None


@dataclass(frozen=True)
class ExplainedSnapshot:
    """All that a snapshot tells of one device; the modules of its requests are calls."""

    trace: AllocationTrace
    # The segments at the end, and the requests that failed, with bytes as PyTorch rounded them.
    segments: Sequence[Segment] = ()
    failed: Sequence[AskedRequest] = ()
    # The allocator's settings, as PyTorch names them.
    settings: Mapping[str, Any] = field(default_factory=dict)


def read_explained_snapshot(path: Path, device: int | None = None) -> ExplainedSnapshot:
    """Read a snapshot with calls, segments, and requests that failed."""
    with errors_at(path):
        snapshot = _read(path, explained=True)
        number = snapshot.device_in_use() if device is None else device
        return snapshot.explained_device(number, path)


def explained_snapshot(content: Mapping[str, Any], device: int) -> ExplainedSnapshot:
    """Take a snapshot that a program has made of itself."""
    snapshot = _Snapshot(ReadingWork(BLOCKS, sys.maxsize), CallPlaces())
    snapshot.take(PlainStream(content))
    return snapshot.explained_device(device, Path("this program"))


def _read(path: Path, *, explained: bool) -> _Snapshot:
    pieces = unpacked_pieces(path, UNPACKED)
    first = next(pieces, b"")
    with path.open("rb") as file:
        is_packed = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
    file_bytes = path.stat().st_size * (PACKED_TIMES if is_packed else 1)
    snapshot = _Snapshot(ReadingWork(BLOCKS, file_bytes), CallPlaces() if explained else None)
    if first.startswith(PICKLE_START):
        read = partial(unpacked_pieces, path, UNPACKED)
        snapshot.take(PlainStream(load_plain(read, file_bytes, snapshot.history)))
        return snapshot
    stream = JsonStream(chain([first], pieces))
    snapshot.take(stream)
    stream.require_end()
    return snapshot


def _recognises(path: Path, head: bytes) -> bool:
    head = unpacked_head(head)
    if head.startswith(PICKLE_START):
        return PYTORCH_SNAPSHOT.has_suffix(path) or any(key.encode() in head for key in KEYS)
    return head.lstrip()[:1] in (b"{", b"[") and any(word in head for word in JSON_WORDS)


PYTORCH_SNAPSHOT = trace_format(
    "pytorch-snapshot",
    (".pickle", ".pkl", ".pickle.gz", ".pkl.gz", ".json", ".json.gz"),
    _recognises,
    read_pytorch_snapshot_trace,
)


class _History(list[Any]):
    """The events of a device, which a pickle makes as its list; each is taken, and dropped."""

    def __init__(self, pools: dict[Any, int], places: CallPlaces | None) -> None:
        super().__init__()
        self.pools, self.places = pools, places
        # Rows of kind, address, size, stream and pool of the events that matter, end to end,
        # because tuples would take as much memory as the events themselves; the place of each; the
        # number of all events; and whether they name pools.
        self.rows: array[int] = array("q")
        self.place_of_event: array[int] = array("q")
        self.events = 0
        self.names_pools = False
        # The last allocation at an address, and the requests that failed.
        self.allocated: dict[int, int] = {}
        self.failed: list[AskedRequest] = []
        self.fault = ""

    def append(self, entry: Any) -> None:
        try:
            self._take(f"event {self.events}", entry)
        except InstanceError as error:
            self.fault = self.fault or str(error)
        self.events += 1

    def extend(self, entries: Iterable[Any]) -> None:
        for entry in entries:
            self.append(entry)

    def _take(self, where: str, entry: Any) -> None:
        try:
            kind = KIND_OF_ACTION.get(entry["action"])
            if kind is None:
                if self.places is not None:
                    self._take_told(self.places, where, entry)
                return
            row = (kind, entry["addr"], entry["size"], entry["stream"])
        except (TypeError, KeyError):
            raise InstanceError(
                f"{where}: a dictionary with action, addr, size and stream is needed, found "
                f"{shown(entry)}"
            ) from None
        if not (type(row[1]) is type(row[2]) is type(row[3]) is int) or not (
            0 <= min(row) <= max(row) <= INT64_MAX
        ):
            size, stream = (_number(where, entry, key) for key in ("size", "stream"))
            row = (kind, _address(where, entry, "addr"), size, stream)
        self.rows.extend(row)
        self.names_pools |= "pool_id" in entry
        is_common = entry.get("pool_id", COMMON_POOL) == COMMON_POOL
        self.rows.append(0 if is_common else _pool_number(where, entry, "pool_id", self.pools))
        if self.places is not None:
            is_alloc = kind == ALLOC
            if is_alloc:
                self.allocated[row[1]] = len(self.place_of_event)
            self.place_of_event.append(self.places.number(entry) if is_alloc else NO_MODULE)

    def _take_told(self, places: CallPlaces, where: str, entry: Any) -> None:
        """Take a request that failed, or a note of the program on a block."""
        kept = self.place_of_event
        if entry["action"] == "oom":
            self.failed.append(
                AskedRequest(
                    event=len(kept),
                    size=_number(where, entry, "size"),
                    stream=_number(where, entry, "stream"),
                    pool=_pool_number(where, entry, "pool_id", self.pools),
                    told=places.told(entry),
                    device_free=_number(where, entry, "device_free", "addr"),
                )
            )
        elif entry["action"] == "annotate":
            event = self.allocated.get(_address(where, entry, "addr"))
            if event is not None:
                kept[event] = places.noted(kept[event], entry.get("user_metadata"))


class _Snapshot:
    """The segments and events of each device in a snapshot, taken one by one."""

    def __init__(self, work: ReadingWork, places: CallPlaces | None) -> None:
        # A pickle may name one list of blocks for every segment.
        self.work = work
        # Parts that only an explanation of a snapshot reads; None otherwise.
        self.places = places
        self.settings: Mapping[str, Any] = {}
        # Of each device.
        self.segments: dict[int, list[Segment]] = {}
        self.histories: list[_History] = []
        self.pools: dict[Any, int] = {COMMON_POOL: 0}
        self.is_planned = False

    def history(self) -> _History:
        return _History(self.pools, self.places)

    def take(self, stream: PlainStream | JsonStream) -> None:
        if stream.is_list:
            self._take_segments(stream)
            return
        found = set()
        for name in stream.fields():
            found.add(name)
            if name == "segments":
                self._take_segments(stream)
            elif name == "device_traces":
                self._take_traces(stream)
            else:
                value = stream.value()
                self.is_planned |= is_planned_snapshot({name: value})
                if name == "allocator_settings" and isinstance(value, dict):
                    self.settings = value
        if not found >= set(KEYS):
            raise InstanceError(
                "a dictionary with segments and device_traces is needed, as torch.cuda.memory."
                "_dump_snapshot writes it after _record_memory_history, or a list of segments, "
                f"found {shown(sorted(found))}"
            )

    def _take_segments(self, stream: PlainStream | JsonStream) -> None:
        for place, _ in enumerate(stream.entries("segments")):
            where = f"segments, entry {place}"
            entry = _dictionary(where, stream.value())
            begin = address = _address(where, entry, "address")
            blocks, entries = [], PlainStream(entry.get("blocks"))
            for index, _ in enumerate(entries.entries(f"{where}, blocks")):
                self.work.charge()
                blocks.append(self._block(f"{where}, block {index}", entries.value(), address))
                address = blocks[-1].address + blocks[-1].size
            pool = _pool_number(where, entry, "segment_pool_id", self.pools)
            segment = Segment(
                begin,
                _number(where, {"total_size": address - begin, **entry}, "total_size"),
                _number(where, entry, "stream"),
                PLANNED_POOL if entry.get("is_planned") is True else pool,
                blocks,
                is_small=entry.get("segment_type") == "small",
                is_expandable=entry.get("is_expandable") is True,
            )
            device = _number(where, {"device": 0, **entry}, "device")
            self.segments.setdefault(device, []).append(segment)

    def _block(self, where: str, entry: Any, behind: int) -> Block:
        """Return a block. Blocks lie end to end; older snapshots have only their sizes."""
        _dictionary(where, entry)
        address = _address(where, entry, "address") if "address" in entry else behind
        size, named = _number(where, entry, "size"), entry.get("state")
        if address + size > INT64_MAX:
            raise InstanceError(f"{where}: it must end below 2**63, found {address + size}")
        state = HELD_STATES.get(named) if isinstance(named, str) else None
        if state is None:
            return Block(address, size, 0, BlockState.FREE)
        told = "" if self.places is None else self.places.told(entry)
        return Block(address, size, _number(where, entry, "requested_size", "size"), state, told)

    def _take_traces(self, stream: PlainStream | JsonStream) -> None:
        for device, _ in enumerate(stream.entries("device_traces")):
            taken = stream.value() if isinstance(stream, PlainStream) else None
            history = taken if isinstance(taken, _History) else self.history()
            for _ in stream.entries(f"device_traces, device {device}"):
                history.append(stream.value())
            if history.fault:
                raise InstanceError(f"device {device}, {history.fault}")
            self.histories.append(history)

    def trace_of_device(self, device: int, path: Path) -> AllocationTrace:
        return trace_of_events(
            self.log_of_device(device),
            module_names=[] if self.places is None else self.places.texts,
            name=path.stem,
            origin={"format": PYTORCH_SNAPSHOT.name, "file": path.name, "device": device},
        )

    def explained_device(self, device: int, path: Path) -> ExplainedSnapshot:
        trace = self.trace_of_device(device, path)
        segments = [] if self.is_planned else self.segments.get(device, [])
        failed = self.histories[device].failed if device < len(self.histories) else []
        return ExplainedSnapshot(trace, segments, failed, self.settings)

    def device_in_use(self) -> int:
        """Return the device that is in use; of several, the only one whose requests failed."""
        traced = [number for number, one in enumerate(self.histories) if one.events]
        in_use = traced or sorted(self.segments)
        failed = [number for number, one in enumerate(self.histories) if one.failed]
        if len(in_use) > 1 and len(failed) == 1:
            return failed[0]
        if len(in_use) != 1:
            found = ", ".join(map(str, in_use[:16])) or "none, as it has no segments and no events"
            raise InstanceError(
                f"one device in use is needed, or the number of one (--device), found {found}"
            )
        return in_use[0]

    def log_of_device(self, device: int) -> EventLog:
        segments = self.segments.get(device, [])
        if not 0 <= device < len(self.histories) and not segments:
            raise InstanceError(f"device {device}: the snapshot has {len(self.histories)} devices, "
                                "from 0")  # fmt: skip
        is_traced = 0 <= device < len(self.histories)
        history = self.histories[device] if is_traced else self.history()
        rows = np.frombuffer(history.rows, dtype=np.int64).reshape(-1, 5)
        module = np.frombuffer(history.place_of_event, dtype=np.int64)
        if self.is_planned:
            # The segment of such a snapshot is a plan's peak; no allocator had reserved it.
            is_kept = rows[:, 0] <= FREE_COMPLETED
            rows, module = rows[is_kept], module[is_kept[: len(module)]]
        kind, address, size, stream, pool = rows.T
        told = set(np.unique(address[kind <= FREE_COMPLETED]).tolist())
        before = {
            block.address: (block.requested, segment.stream)
            for segment in segments
            for block in segment.blocks
            if block.state is not BlockState.FREE and block.address not in told
        }
        if not history.names_pools:
            pool = _pools_of_segments(segments, rows)
        return EventLog(kind, address, size, stream, module, pool, before)


def _dictionary(where: str, entry: Any) -> dict[str, Any]:
    if not isinstance(entry, dict):
        raise InstanceError(f"{where}: a dictionary is needed, found {shown(entry)}")
    return entry


def _pools_of_segments(segments: Sequence[Segment], rows: IntColumn) -> IntColumn:
    """Return the pool of each event by the segments that the snapshot shows.

    The events of older versions of PyTorch do not name their pool. A segment at the same address
    that was freed before counts as common.
    """
    kind, address = rows[:, 0], rows[:, 1]
    found = [
        (one.address, min(one.address + one.size, INT64_MAX), one.pool)
        for one in segments
        if one.pool
    ]
    if not found:
        return np.zeros(len(rows), dtype=np.int64)
    begins, ends, numbers = np.array(sorted(found), dtype=np.int64).T
    at = np.maximum(np.searchsorted(begins, address, side="right") - 1, 0)
    inside = (begins[at] <= address) & (address < ends[at])
    event = np.arange(len(rows))
    created = (kind == SEGMENT_ALLOC) & (address == begins[at])
    last_created = np.zeros(len(begins), dtype=np.int64)
    np.maximum.at(last_created, at[created], event[created])
    return np.where(inside & (event >= last_created[at]), numbers[at], 0)


def _pool_number(where: str, entry: dict[str, Any], key: str, pools: dict[Any, int]) -> int:
    """Return the number of a pool, which may be new."""
    pool = entry.get(key, COMMON_POOL)
    # JSON has no tuples.
    pool = tuple(pool) if isinstance(pool, list) else pool
    if not (type(pool) is tuple and [type(part) for part in pool] == [int, int]):
        raise InstanceError(f"{where}, {key}: two whole numbers are needed, found {shown(pool)}")
    return pools.setdefault(pool, len(pools))


def _number(where: str, entry: dict[str, Any], *keys: str, end: int = INT64_MAX + 1) -> int:
    """Return the first present field of some, a whole number from 0 to 2**63 - 1."""
    key = next((key for key in keys if key in entry), keys[0])
    value = entry.get(key)
    if type(value) is not int or not 0 <= value < end:
        raise InstanceError(
            f"{where}, {key}: a whole number from 0 to 2**{end.bit_length() - 1} - 1 is needed, "
            f"found {shown(value)}"
        )
    return value


def _address(where: str, entry: dict[str, Any], key: str) -> int:
    """Return an address without its highest bit, so that it fits a signed number."""
    return _number(where, entry, key, end=END_OF_ADDRESSES) & INT64_MAX


TARGET = "a memory snapshot"
# Address of the only segment. The viewer is JavaScript, whose whole numbers are exact to 2**53.
SEGMENT_ADDRESS = 0x7F0000000000
# This takes the place of an allocator's settings. The viewer shows it. It marks the snapshot as a
# plan.
SETTINGS = {"planned_by": "gapless"}
# The viewer reads protocols 2 to 4.
PICKLE_PROTOCOL = 4


def write_planned_snapshot(problem: Problem, plan: Plan, path: Path) -> None:
    """Write the history of an allocator that follows a plan.

    The allocator reserves one segment of the plan's peak. Then it allocates every tensor at its
    offset when its lifetime starts, and frees it when its lifetime ends, frees of a step first. A
    step takes a microsecond. The stack of calls of a tensor is its name, with the problem's name
    as file and the tensor's number as line. At the end all is freed. A tensor with a gap is freed
    during the gap. An empty tensor is left out, because no program requests it.
    """
    events = _planned_events(problem, plan)
    snapshot = {
        "segments": [_segment(plan.peak)] if plan.peak else [],
        "device_traces": [events],
        "allocator_settings": SETTINGS,
    }
    write_output(path, pickle.dumps(snapshot, protocol=PICKLE_PROTOCOL))


def is_planned_snapshot(snapshot: Mapping[str, Any]) -> bool:
    """Return True if a snapshot shows a plan and not the history of an allocator."""
    return bool(snapshot.get("allocator_settings") == SETTINGS)


def _segment(peak: int) -> dict[str, Any]:
    block = {
        "address": SEGMENT_ADDRESS,
        "size": peak,
        "requested_size": 0,
        "state": "inactive",
        "frames": [],
    }
    return {
        "device": 0,
        "address": SEGMENT_ADDRESS,
        "total_size": peak,
        "allocated_size": 0,
        "active_size": 0,
        "requested_size": 0,
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": [block],
    }


def _planned_events(problem: Problem, plan: Plan) -> list[dict[str, Any]]:
    rows = occupied_steps(problem, plan, TARGET).tolist()
    offsets, sizes = plan.offsets.tolist(), problem.size.tolist()
    streams = stream_of_tensors(problem)

    def event(action: str, tensor: int, step: int) -> dict[str, Any]:
        return {
            "action": action,
            "addr": SEGMENT_ADDRESS + offsets[tensor],
            "size": sizes[tensor],
            "stream": streams[tensor],
            "time_us": step,
            "frames": [
                {
                    "name": name_of_tensor(problem, tensor),
                    "filename": problem.name,
                    "line": tensor,
                }
            ],
        }

    whole = {"action": "segment_alloc", "addr": SEGMENT_ADDRESS, "size": plan.peak, "stream": 0}
    events = [{**whole, "time_us": 0, "frames": []}] if plan.peak else []
    freed, allocated = 0, 1
    changes = [(end, freed, tensor) for tensor, _, end in rows]
    changes += [(start, allocated, tensor) for tensor, start, _ in rows]
    for step, change, tensor in sorted(changes):
        if change == allocated:
            events.append(event("alloc", tensor, step))
        else:
            events.append(event("free_requested", tensor, step))
            events.append(event("free_completed", tensor, step))
    return events
