"""Recorded GPU allocation traces: arrays of events, as the allocator's history gives them."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planners.errors import InstanceError
from planners.formats import Format
from planners.problem import MAX_TENSORS, Problem

ARRAYS = ("action", "addr", "size", "names")
MAX_BYTES = 1 << 30
ALLOC, FREED = "alloc", "free_completed"


def read_recorded_trace(path: Path) -> Problem:
    """Read the allocations of a whole recording as lifetimes.

    A step is an event of the recording. A block lives from its ``alloc`` to its
    ``free_completed``, when the device is done with it, or to the end of the recording. Sizes are
    the bytes that were requested. Blocks that were there before the recording are not known and
    left out.

    Parameters
    ----------
    path
        A ``.npz`` with the arrays ``action`` (index into ``names``), ``addr``, ``size``, ``names``.

    Returns
    -------
    Problem
        Lifetimes decide; tensors in the order of their allocation.

    Raises
    ------
    InstanceError
        The file cannot be read or breaks a rule; the message names file and event.
    """
    try:
        return _problem(_load(path), path)
    except InstanceError as error:
        raise InstanceError(f"{path}: {error}") from None


def _recognises(path: Path, head: bytes) -> bool:
    return path.name.lower().endswith(".npz") and head.startswith(b"PK")


RECORDED_TRACE = Format("recorded-trace", (".npz",), _recognises, read_recorded_trace)


def _load(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with zipfile.ZipFile(path) as archive:
            # What the archive says it holds, before any of it is taken into memory.
            total = sum(member.file_size for member in archive.infolist())
        if total > MAX_BYTES:
            raise InstanceError(f"at most {MAX_BYTES} bytes of arrays are taken, found {total}")
        with np.load(path, allow_pickle=False) as arrays:
            missing = [name for name in ARRAYS if name not in arrays.files]
            if missing:
                raise InstanceError(f"array {missing[0]}: missing; needed are {', '.join(ARRAYS)}")
            return {name: arrays[name] for name in ARRAYS}
    except InstanceError:
        raise
    except Exception as error:  # zipfile and NumPy raise many kinds on damaged archives
        raise InstanceError(f"the file is no whole archive of arrays: {error}") from None


def _problem(arrays: dict[str, NDArray[Any]], path: Path) -> Problem:
    action, address, size = (_column(name, arrays[name]) for name in ARRAYS[:3])
    if not len(action) == len(address) == len(size) <= MAX_TENSORS:
        raise InstanceError(
            f"arrays action, addr and size need the same length, at most {MAX_TENSORS}, found "
            f"{len(action)}, {len(address)} and {len(size)}"
        )
    names = [str(name) for name in arrays["names"].ravel()[:64]]
    alloc, freed = (_code(names, name) for name in (ALLOC, FREED))
    born: list[int] = []
    dies: list[int] = []
    live: dict[int, int] = {}
    for event in np.flatnonzero((action == alloc) | (action == freed)).tolist():
        block = int(address[event])
        if action[event] == freed:
            tensor = live.pop(block, None)
            if tensor is not None:
                dies[tensor] = event
        elif block in live:
            raise InstanceError(
                f"event {event}: an address is allocated once until it is freed, found {block:#x} "
                f"again, allocated at event {born[live[block]]}"
            )
        else:
            live[block] = len(born)
            born.append(event)
            dies.append(len(action))
    return Problem(
        size[born],
        born,
        dies,
        name=path.stem,
        origin={"format": RECORDED_TRACE.name, "file": path.name},
    )


def _column(name: str, values: NDArray[Any]) -> NDArray[Any]:
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise InstanceError(
            f"array {name}: one dimension of whole numbers is needed, found {values.dtype} of "
            f"shape {values.shape}"
        )
    return values


def _code(names: list[str], name: str) -> int:
    if name not in names:
        raise InstanceError(f"array names: {name!r} is needed, found {', '.join(names)}")
    return names.index(name)
