"""Recorded GPU allocation traces: arrays of events, as the allocator's history gives them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from instances.formats.numpy_archive import load_arrays
from instances.formats.trace_format import trace_format
from instances.traces.allocation_trace import ROLE_FIELDS, AllocationTrace
from instances.traces.event_log import (
    EVENT_KINDS,
    NOTHING,
    EventLog,
    Marks,
    events_of_trace,
    trace_of_events,
)
from planners.errors import InstanceError, errors_at
from planners.files.output_file import replacing
from planners.model.columns import INT64_MAX
from planners.model.rules import MAX_TENSORS
from planners.text.plain_text import shown

ARRAYS = ("action", "addr", "size", "names")
MARK_ARRAYS = ("mark_event", "mark_phase", "mark_microbatch", "mark_iteration")
BEFORE_ARRAYS = ("before_addr", "before_size", "before_stream")
OPTIONAL_ARRAYS = ("stream", "pool", *MARK_ARRAYS, "module", "module_names", *BEFORE_ARRAYS,
                   *ROLE_FIELDS, "capture")  # fmt: skip
NEEDED_ACTIONS = ("alloc", "free_completed")
MAX_BYTES = 1 << 30
MAX_MODULES = 1 << 20


def read_recorded_trace_file(path: Path) -> AllocationTrace:
    """Read a recording: the requests to an allocator, and its own requests to the device.

    The ``.npz`` has the arrays ``action`` (index into ``names``), ``addr``, ``size`` and ``names``.
    It may have ``stream``; ``pool`` (the number of a private pool, 0 for the common one); all four
    arrays of marks, without which small allocations of odd sizes mark the phases; ``module`` (index
    into ``module_names``, -1 for none); and all three arrays of the blocks that were there at
    first; and ``role`` and ``element_bytes`` of :class:`AllocationTrace`, those of blocks that were
    there at first in front. Sizes are the bytes that were requested.
    """
    with errors_at(path):
        return _trace(_load(path), path)


def write_recorded_trace(trace: AllocationTrace, path: Path) -> None:
    """Write a trace as arrays of events; the same trace gives the same arrays."""
    log, marks = events_of_trace(trace)
    was_there = np.flatnonzero(trace.before)
    arrays: dict[str, Any] = {
        "action": np.where(log.kind == NOTHING, len(EVENT_KINDS), log.kind).astype(np.int8),
        "addr": log.address,
        "size": log.size,
        "stream": log.stream,
        "names": np.array([*EVENT_KINDS, "mark"]),
        "mark_event": marks.event,
        "mark_phase": marks.phase,
        "mark_microbatch": marks.microbatch,
        "mark_iteration": marks.iteration,
    }
    if trace.pool.any():
        arrays["pool"] = log.pool
    if trace.module_names:
        arrays["module"] = log.module.astype(np.int32)
        arrays["module_names"] = np.array(trace.module_names, dtype=np.str_)
    order = np.argsort(~trace.before, kind="stable")
    for fields in (ROLE_FIELDS, ("capture",)):
        if getattr(trace, fields[0]).any():
            arrays |= {field: getattr(trace, field)[order] for field in fields}
    if len(was_there):
        arrays["before_addr"] = trace.address[was_there]
        arrays["before_size"] = trace.size[was_there]
        arrays["before_stream"] = trace.stream[was_there]
    with replacing(path) as file:
        np.savez_compressed(file, **arrays)


def _recognises(path: Path, head: bytes) -> bool:
    return head.startswith(b"PK") and (RECORDED_TRACE.has_suffix(path) or b".npy" in head)


RECORDED_TRACE = trace_format("recorded-trace", (".npz",), _recognises, read_recorded_trace_file)


def _load(path: Path) -> dict[str, NDArray[Any]]:
    arrays = load_arrays(path, (*ARRAYS, *OPTIONAL_ARRAYS), MAX_BYTES)
    missing = [name for name in ARRAYS if name not in arrays]
    if missing:
        raise InstanceError(f"array {missing[0]}: missing; needed are {', '.join(ARRAYS)}")
    return arrays


def _trace(arrays: dict[str, NDArray[Any]], path: Path) -> AllocationTrace:
    events = ("action", "addr", "size", "stream", "module", "pool")
    present: list[str] = [name for name in events if name in arrays]
    columns = {name: _column(name, arrays[name]) for name in present}
    lengths = {name: len(column) for name, column in columns.items()}
    length = lengths["action"]
    if len(set(lengths.values())) > 1 or length > MAX_TENSORS:
        found = ", ".join(f"{name} {count}" for name, count in lengths.items())
        raise InstanceError(
            f"arrays {', '.join(lengths)} need the same length, at most {MAX_TENSORS}, found "
            f"{found}"
        )
    return trace_of_events(
        EventLog(
            kind=_kinds(columns["action"], arrays["names"]),
            address=columns["addr"],
            size=columns["size"],
            stream=columns.get("stream", np.zeros(length, dtype=np.int64)),
            module=columns.get("module", np.empty(0, dtype=np.int64)),
            pool=columns.get("pool", np.empty(0, dtype=np.int64)),
            before=_before(arrays),
        ),
        marks=_marks(arrays),
        module_names=_names("module_names", arrays, MAX_MODULES),
        told={
            **dict(zip(ROLE_FIELDS, _all_or_none(arrays, ROLE_FIELDS), strict=False)),
            **dict(zip(("capture",), _all_or_none(arrays, ("capture",)), strict=False)),
        },
        name=path.stem,
        origin={"format": RECORDED_TRACE.name, "file": path.name},
    )


def _kinds(action: NDArray[Any], names: NDArray[Any]) -> NDArray[np.int64]:
    """Translate the file's codes to those of an event log; unknown actions become `NOTHING`."""
    listed = [str(name) for name in names.ravel()[:64]]
    for name in NEEDED_ACTIONS:
        if name not in listed:
            raise InstanceError(f"array names: {name!r} is needed, found {shown(listed)}")
    for event in np.flatnonzero((action < 0) | (action >= len(listed)))[:1].tolist():
        raise InstanceError(
            f"array action, event {event}: an index into the {len(listed)} names is needed, found "
            f"{action[event]}"
        )
    ours = [EVENT_KINDS.index(name) if name in EVENT_KINDS else NOTHING for name in listed]
    kinds: NDArray[np.int64] = np.array(ours, dtype=np.int64)[action]
    return kinds


def _marks(arrays: dict[str, NDArray[Any]]) -> Marks | None:
    columns = _all_or_none(arrays, MARK_ARRAYS)
    return Marks(*columns) if columns else None


def _before(arrays: dict[str, NDArray[Any]]) -> dict[int, tuple[int, int]]:
    columns = _all_or_none(arrays, BEFORE_ARRAYS)
    if len({len(column) for column in columns}) > 1:
        raise InstanceError(f"arrays {', '.join(BEFORE_ARRAYS)} need the same length")
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return {address: (size, stream) for address, size, stream in rows}


def _all_or_none(arrays: dict[str, NDArray[Any]], names: Sequence[str]) -> list[NDArray[Any]]:
    present = [name for name in names if name in arrays]
    if present and len(present) < len(names):
        raise InstanceError(f"arrays {', '.join(names)}: all or none, found {', '.join(present)}")
    return [_column(name, arrays[name]) for name in present]


def _names(array: str, arrays: dict[str, NDArray[Any]], most: int) -> list[str]:
    if array not in arrays:
        return []
    names = arrays[array]
    if names.ndim != 1 or names.dtype.kind != "U" or len(names) > most:
        raise InstanceError(
            f"array {array}: one dimension of at most {most} strings is needed, found "
            f"{names.dtype} of shape {names.shape}"
        )
    return [str(name) for name in names]


def _column(name: str, values: NDArray[Any]) -> NDArray[Any]:
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise InstanceError(
            f"array {name}: one dimension of whole numbers is needed, found {values.dtype} of "
            f"shape {values.shape}"
        )
    if values.size and values.max() > INT64_MAX:
        raise InstanceError(
            f"array {name}, entry {values.argmax()}: a number that fits int64 is needed, found "
            f"{values.max()}"
        )
    return values.astype(np.int64)
