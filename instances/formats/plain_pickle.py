"""Pickles of plain containers, which are checked before Python's unpickler reads them.

Note [No pickle is loaded unseen]
---------------------------------
Rationale. Python's ``Unpickler`` without ``find_class`` runs no foreign code, but a file of a few
bytes can still exhaust it. A memo index of 2**32 makes it fill 64 GiB, tuples nested as keys take
exponential time to hash, and memory for strings is allocated before one byte of them is read. An
interpreter in Python would be safe from all that, but takes half a microsecond a byte.

Approach. The core interprets the opcodes on the types of values alone, at a few nanoseconds each,
and creates no value. It knows some thirty opcodes, those in dumps of plain containers, and refuses
all others by name: classes, calls, attributes and buffers. Lengths must fit the rest of the file,
memo indices follow each other, keys of dictionaries are strings, opcodes reach no deeper than the
last mark, and the number of values is bounded by the bytes of the file. An unpickler that finds no
class then reads the pickle.

Limits: protocols 2 to 5, as ``pickle.dump`` has written for twenty years; protocols 0 and 1 have
another text format for most values.
"""

from __future__ import annotations

import io
import pickle
from typing import Any, NoReturn

from planners._core import find_pickle_fault
from planners.errors import InstanceError
from planners.files.file_limits import Allowance
from planners.text.plain_text import shown

# A dictionary with one entry takes five bytes of a file and 232 of memory; a number of two bytes
# takes three of a file and 36 of memory.
MAX_SCALARS = 40_000_000
# Events of snapshots take some forty bytes a container.
CONTAINERS = Allowance("containers", free=1 << 17, for_bytes=8, most=8_000_000)
MAX_INTEGER_BYTES = 16
# Gzip packs a snapshot by some ten to twenty times.
PACKED_TIMES = 16

_NAMES = {
    getattr(pickle, name)[0]: name
    for name in pickle.__all__
    if name.isupper() and isinstance(getattr(pickle, name), bytes)
}


def load_plain(data: bytes, packed_bytes: int | None = None) -> Any:
    """Read a pickle of ``None``, booleans, numbers, strings, bytes, tuples, lists and dicts.

    Keys of dicts are strings. Bytes after the end of the pickle are ignored. The bytes of a file
    limit the containers, if it was packed by more than gzip packs a snapshot.
    """
    most = len(data) if packed_bytes is None else PACKED_TIMES * packed_bytes
    containers = CONTAINERS.of(min(len(data), most))
    rule, number, left = find_pickle_fault(data, containers, MAX_SCALARS, MAX_INTEGER_BYTES)
    if rule:
        _refuse(data, rule, number, left, containers)
    try:
        # Buffered, because an unpickler asks the stream for each opcode of the older protocols.
        return _Unpickler(io.BufferedReader(io.BytesIO(data))).load()
    except UnicodeDecodeError as error:
        raise InstanceError(
            f"the pickle is damaged: a string is not UTF-8: {error.reason}"
        ) from None


class _Unpickler(pickle.Unpickler):
    """Refuses every class, as a second guard behind the check of the core."""

    def find_class(self, module_name: str, global_name: str) -> NoReturn:
        name = shown(f"{module_name}.{global_name}")
        raise InstanceError(f"a pickle of plain containers is needed, found {name}")

    def persistent_load(self, _pid: object) -> NoReturn:
        raise InstanceError("a pickle of plain containers is needed, found a persistent object")


def _refuse(data: bytes, rule: str, number: int, left: int, containers: int) -> NoReturn:
    damaged = "the pickle is damaged: "
    words = {
        "protocol": f"a pickle of protocol 2 to 5 is needed, found {shown(data[:2])} at its start",
        # Either the stack or the file ended too early.
        "ends": "the file is not a whole pickle: it ends, or is damaged",
        "opcode": (
            f"a pickle of plain containers is needed, found the opcode "
            f"{_NAMES.get(number) or hex(number)}, which is none of theirs; nothing was run"
        ),
        "length": (f"the file is not a whole pickle: {number} bytes are to follow, found {left}"),
        "integer": (
            f"a whole number of at most {MAX_INTEGER_BYTES} bytes, all there, is needed, found one "
            f"of {number} bytes"
        ),
        "frame": f"{damaged}a frame ends within a value",
        "memo": f"{damaged}nothing is kept as {number}",
        "kept": f"{damaged}values are kept under numbers that follow each other, found {number}",
        "container": f"{damaged}a value is put into no container",
        "key": "a string as the key of an entry is needed, found something else",
        "room": (
            f"of {len(data)} bytes at most {containers} containers and {MAX_SCALARS} numbers and "
            f"strings are read, found more; of a snapshot as JSON, any number is"
        ),
    }
    raise InstanceError(words[rule])
