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
last mark, and the memory of the values is bounded by the bytes of the file. The file is checked
whole once. Then it is read piece by piece: the core checks each again, and leaves out what the
pickle keeps and never uses again. An unpickler that finds no class reads the rest.

Limits: protocols 2 to 5, as ``pickle.dump`` has written for twenty years; protocols 0 and 1 have
another text format for most values. Lists of entries that are taken at once are lists in lists.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, NoReturn

from planners._core import PickleCheck
from planners.errors import InstanceError
from planners.files.file_limits import MAX_TEXT_BYTES, Allowance
from planners.text.plain_text import shown

# Events of snapshots take some fifteen times their bytes in the file.
MEMORY = Allowance("bytes of memory", free=1 << 26, for_bytes=1, more=32, most=3 << 30)
MAX_INTEGER_BYTES = 16
BUFFER_BYTES = 1 << 20

_NAMES = {
    getattr(pickle, name)[0]: name
    for name in pickle.__all__
    if name.isupper() and isinstance(getattr(pickle, name), bytes)
}


def load_plain(
    read: Callable[[], Iterable[bytes]],
    file_bytes: int,
    make_list: Callable[[], list[Any]] | None = None,
) -> Any:
    """Read a pickle of ``None``, booleans, numbers, strings, bytes, tuples, lists and dicts.

    `read` gives the pieces of the pickle, twice. Keys of dicts are strings. Bytes after the end of
    the pickle are ignored. A list in a list is one of `make_list`, which drops entries once it has
    taken them: its ``extend`` gets them batch by batch, and its ``append`` gets single ones.
    """
    memory = MEMORY.of(file_bytes)
    check = PickleCheck(memory, MAX_INTEGER_BYTES, MAX_TEXT_BYTES, make_list is not None)
    for _ in _checked(check, read(), memory):
        pass
    check.again()
    stream = _Stream(_checked(check, read(), memory))
    try:
        return _Unpickler(io.BufferedReader(stream, BUFFER_BYTES), make_list).load()
    except UnicodeDecodeError as error:
        raise InstanceError(
            f"the pickle is damaged: a string is not UTF-8: {error.reason}"
        ) from None


def _checked(check: PickleCheck, pieces: Iterable[bytes], memory: int) -> Iterator[bytes]:
    for piece in chain(pieces, [b""]):
        checked = check.feed(piece)
        rule, number, left = check.fault
        if rule:
            _refuse(rule, number, left, memory)
        yield checked


class _Stream(io.RawIOBase):
    """A stream of pieces, whose reader buffers them."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._rest = pieces, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest and (piece := next(self._pieces, None)) is not None:
            self._rest = memoryview(piece)
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count


class _Unpickler(pickle.Unpickler):
    """Refuses every class, as a second guard behind the check of the core."""

    def __init__(self, file: Any, make_list: Callable[[], list[Any]] | None) -> None:
        super().__init__(file)
        self._make_list = make_list

    def find_class(self, module_name: str, global_name: str) -> NoReturn:
        name = shown(f"{module_name}.{global_name}")
        raise InstanceError(f"a pickle of plain containers is needed, found {name}")

    def persistent_load(self, _pid: object) -> list[Any]:
        """Make a list of entries; the core refuses the opcode in a file."""
        if self._make_list is None:
            raise InstanceError("a pickle of plain containers is needed, found a persistent object")
        return self._make_list()


def _refuse(rule: str, number: int, left: int, memory: int) -> NoReturn:
    damaged = "the pickle is damaged: "
    words = {
        "protocol": "a pickle of protocol 2 to 5 is needed, found another start",
        # Either the stack or the file ended too early.
        "ends": "the file is not a whole pickle: it ends, or is damaged",
        "opcode": (
            f"a pickle of plain containers is needed, found the opcode "
            f"{_NAMES.get(number) or hex(number)}, which is none of theirs; nothing was run"
        ),
        "length": f"the file is not a whole pickle: {number} bytes are to follow, found {left}",
        "integer": (
            f"a whole number of at most {MAX_INTEGER_BYTES} bytes, all there, is needed, found one "
            f"of {number} bytes"
        ),
        "memo": f"{damaged}nothing is kept as {number}",
        "kept": f"{damaged}values are kept under numbers that follow each other, found {number}",
        "container": f"{damaged}a value is put into no container",
        "key": "a string as the key of an entry is needed, found something else",
        "memory": (
            f"a pickle may ask for {memory} bytes of memory, found more; "
            "of a snapshot as JSON, any number of events is read"
        ),
    }
    raise InstanceError(words[rule])
