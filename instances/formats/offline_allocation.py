"""A plan as the metadata of a TensorFlow Lite model, by which the Micro runtime places tensors.

Note: how a model is changed without being rebuilt
--------------------------------------------------
Rationale. A model is a tree of tables that point forwards, by distances. To write it anew means to
know every table of every version.

Approach. A new root stands before the old file, whose bytes stay as they are. It points forwards to
the old lists, except to that of buffers and that of metadata, which are new: the old entries, and
one more. What had the same name before is left out of the list.

Limits. Data that lies behind the tables, at places counted from the begin of the file, would move;
such models, beyond 2 GiB, are refused.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from instances.formats.judged_plan import require_valid_plan
from instances.formats.tflite_model import (
    HEADER,
    IDENTIFIER,
    METADATA_NAME,
    NOT_PLANNED,
    read_tflite_model,
)
from planners.errors import InstanceError, errors_at
from planners.files.bounded_file import read_bounded
from planners.files.file_limits import MAX_MODEL_BYTES
from planners.files.output_file import write_output
from planners.model.plan import Result
from planners.model.problem import Problem

# Of the root table, in the order of the schema.
FIELDS = (
    "version", "operator_codes", "subgraphs", "description", "buffers", "metadata_buffer",
    "metadata", "signature_defs",
)  # fmt: skip
_FIRST_LIST = 8 + 4 + 2 * len(FIELDS) + 4 + 4 * len(FIELDS)
# Any alignment that the old file counts on.
_SHIFT_ALIGNMENT = 64


def write_offline_allocation(source: Path, problem: Problem, result: Result, path: Path) -> None:
    """Write a copy of a model with a plan, which is judged first.

    The metadata has an offset for each tensor of the file, -1 for weights and variables. The
    runtime places what kernels ask for themselves around them.
    """
    assert result.plan is not None
    model = read_tflite_model(source)
    if model.problem.tensor_count != problem.tensor_count:
        raise InstanceError(f"{source}: a plan for this very model is needed, found another")
    require_valid_plan(problem, result.plan)
    if result.plan.peak >= 1 << 31:
        raise InstanceError(f"{path}: offsets of 32 bits are needed, found {result.plan.peak}")
    offsets = [NOT_PLANNED] * model.tensor_count
    for tensor, offset in zip(model.tensors, result.plan.offsets.tolist(), strict=True):
        offsets[tensor] = offset
    words = [*HEADER, len(offsets), *offsets]
    with errors_at(source):
        data = read_bounded(source, MAX_MODEL_BYTES)
        write_output(path, _with_metadata(data, struct.pack(f"<{len(words)}i", *words)))


def _with_metadata(data: bytes, content: bytes) -> bytes:
    import tflite

    model = tflite.Model.GetRootAs(data)
    buffers = [_table(model.Buffers(index)) for index in range(model.BuffersLength())]
    if any(model.Buffers(index).Offset() > 1 for index in range(len(buffers))):
        raise InstanceError("data within the tables is needed, found data behind them")
    entries = [model.Metadata(index) for index in range(model.MetadataLength())]
    kept = [_table(entry) for entry in entries if entry.Name() != METADATA_NAME]
    old = _old_fields(data)
    # New parts, each at a multiple of 4: where the lists begin, and what the new entries need.
    buffer_list = _FIRST_LIST
    metadata_list = buffer_list + 4 * (len(buffers) + 2)
    entry = metadata_list + 4 * (len(kept) + 2) + 8
    name = entry + 12
    buffer = name + 4 + len(METADATA_NAME) // 4 * 4 + 4 + 8
    # Its numbers, behind their count, at a multiple of 16, as the schema wants it.
    numbers = _rounded_up(buffer + 8 + 4, 16) - 4
    shift = _rounded_up(numbers + 4 + len(content), _SHIFT_ALIGNMENT)

    new = bytearray(shift)
    table = 8 + 4 + 2 * len(FIELDS)
    struct.pack_into("<I4s", new, 0, table, IDENTIFIER)
    struct.pack_into("<HH", new, 8, 4 + 2 * len(FIELDS), 4 + 4 * len(FIELDS))
    struct.pack_into("<i", new, table, table - 8)
    targets = {"buffers": buffer_list, "metadata": metadata_list}
    for index, field in enumerate(FIELDS):
        place = table + 4 + 4 * index
        if field == "version":
            struct.pack_into("<I", new, place, model.Version())
        elif field in targets:
            struct.pack_into("<I", new, place, targets[field] - place)
        elif field in old:
            struct.pack_into("<I", new, place, old[field] + shift - place)
        else:
            continue
        struct.pack_into("<H", new, 8 + 4 + 2 * index, 4 + 4 * index)
    _put_list(new, buffer_list, [*(each + shift for each in buffers), buffer])
    _put_list(new, metadata_list, [*(each + shift for each in kept), entry])
    struct.pack_into("<HHHH", new, entry - 8, 8, 12, 4, 8)
    struct.pack_into("<iII", new, entry, 8, name - (entry + 4), len(buffers))
    struct.pack_into(f"<I{len(METADATA_NAME)}s", new, name, len(METADATA_NAME), METADATA_NAME)
    struct.pack_into("<HHH", new, buffer - 8, 6, 8, 4)
    struct.pack_into("<iI", new, buffer, 8, numbers - (buffer + 4))
    struct.pack_into("<I", new, numbers, len(content))
    new[numbers + 4 : numbers + 4 + len(content)] = content
    return bytes(new) + data


def _old_fields(data: bytes) -> dict[str, int]:
    """Return where the lists and texts of the old root lie."""
    (table,) = struct.unpack_from("<I", data)
    (back,) = struct.unpack_from("<i", data, table)
    (size,) = struct.unpack_from("<H", data, table - back)
    known = 4 + 2 * len(FIELDS)
    if size > known:
        raise InstanceError(f"a root of at most {len(FIELDS)} fields is known, found more")
    found = {}
    for index, field in enumerate(FIELDS[: (size - 4) // 2]):
        (within,) = struct.unpack_from("<H", data, table - back + 4 + 2 * index)
        if within and field != "version":
            (distance,) = struct.unpack_from("<I", data, table + within)
            found[field] = table + within + distance
    return found


def _put_list(new: bytearray, place: int, targets: list[int]) -> None:
    struct.pack_into("<I", new, place, len(targets))
    for index, target in enumerate(targets, start=1):
        struct.pack_into("<I", new, place + 4 * index, target - (place + 4 * index))


def _table(entry: Any) -> int:
    place: int = entry._tab.Pos
    return place


def _rounded_up(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple
