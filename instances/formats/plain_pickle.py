"""Pickles of plain containers, read by a machine that knows nothing else.

Note [A pickle machine of our own]
----------------------------------
Python's ``Unpickler`` with its ``find_class`` taken away runs no foreign code, and still can be
taken down by a file of a few bytes: a memo index of 2**32 makes it fill 64 GiB, tuples nested as
keys take exponential time to hash, strings claim sizes that are set aside before one byte of them
is there. So the opcodes that a dump of plain containers consists of are interpreted here, some
thirty, and every other one is refused by name. There is no opcode for a class, a call, an attribute
or a buffer; the memo is a dictionary; the keys of dictionaries are strings; a length is held
against the rest of the file before anything is read. Values that are made are counted; references
to values that are there are bounded by the length of the file.

Limits: protocols 2 to 5, as ``pickle.dump`` has written for twenty years; protocols 0 and 1 have
another text format for most values.
"""

from __future__ import annotations

import pickle
import re
import struct
from typing import Any, NoReturn

from planners.columns import shown
from planners.errors import InstanceError

# A dictionary with one entry takes five bytes of a file and 232 of memory; a number of two bytes
# takes three of a file and 36 of memory.
MAX_CONTAINERS = 8_000_000
MAX_SCALARS = 40_000_000
MAX_INTEGER_BYTES = 16

# Stacks of calls, which share their frames, are long runs of these.
_BINGETS: Any = re.compile(rb"(?:h.)+", re.DOTALL)
_LONG_BINGETS: Any = re.compile(rb"(?:j.{4})+", re.DOTALL)

_NAMES = {
    getattr(pickle, name)[0]: name
    for name in pickle.__all__
    if name.isupper() and isinstance(getattr(pickle, name), bytes)
}


def load_plain(data: bytes) -> Any:
    """Read a pickle of ``None``, booleans, numbers, strings, bytes, tuples, lists and dictionaries.

    Parameters
    ----------
    data
        The pickle; untrusted. What follows its end is not looked at.

    Returns
    -------
    object
        As it was dumped; the keys of dictionaries are strings.

    Raises
    ------
    InstanceError
        The pickle holds something else, is cut off or damaged, or too large.
    """
    machine = _Machine(data)
    try:
        return machine.run()
    except (IndexError, struct.error):
        # The stack or the file ended too early; which of the two makes no difference to a reader.
        raise InstanceError("the file is no whole pickle: it ends, or is damaged") from None
    except KeyError as error:
        raise InstanceError(f"the pickle is damaged: nothing is kept as {error}") from None
    except (TypeError, AttributeError):
        raise InstanceError("the pickle is damaged: a value is put into no container") from None
    except UnicodeDecodeError as error:
        raise InstanceError(
            f"the pickle is damaged: a string is no UTF-8: {error.reason}"
        ) from None


class _Machine:
    """The stack machine of the pickle format, less everything that is not plain."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.containers = 0
        self.scalars = 0

    def run(self) -> Any:
        if self.data[:1] != pickle.PROTO or not 2 <= self.data[1] <= 5:
            raise InstanceError(
                f"a pickle of protocol 2 to 5 is needed, found {shown(self.data[:2])} at its start"
            )
        self.at = 2
        # The opcodes of which an event consists come first, and their effects stand here rather
        # than in methods: a snapshot has some twenty of them an event.
        data, stack = self.data, self.stack
        memo: dict[int, Any] = {}
        append, mark = stack.append, self.marks.append
        at = self.at
        while True:
            opcode = data[at]
            at += 1
            if opcode == 0x68:  # BINGET
                if data[at + 1] == 0x68:
                    end = _BINGETS.match(data, at - 1).end()
                    stack.extend([memo[index] for index in data[at:end:2]])
                    at = end
                else:
                    append(memo[data[at]])
                    at += 1
            elif opcode == 0x8A:  # LONG1
                end = at + 1 + data[at]
                if end - at > MAX_INTEGER_BYTES + 1 or end > len(data):
                    self._refuse_integer(end - at - 1)
                self.scalars += 1
                if self.scalars > MAX_SCALARS:
                    self._require_room()
                append(int.from_bytes(data[at + 1 : end], "little", signed=True))
                at = end
            elif opcode == 0x6A:  # LONG_BINGET
                if data[at + 4] == 0x6A:
                    end = _LONG_BINGETS.match(data, at - 1).end()
                    indices = struct.iter_unpack("<xI", data[at - 1 : end])
                    stack.extend([memo[index] for (index,) in indices])
                    at = end
                else:
                    append(memo[int.from_bytes(data[at : at + 4], "little")])
                    at += 4
            elif opcode == 0x4B:  # BININT1
                append(data[at])
                at += 1
            elif opcode == 0x94:  # MEMOIZE
                memo[len(memo)] = stack[-1]
            elif opcode == 0x28:  # MARK
                mark(len(stack))
            elif opcode == 0x71:  # BINPUT
                memo[data[at]] = stack[-1]
                at += 1
            elif opcode == 0x72:  # LONG_BINPUT
                memo[int.from_bytes(data[at : at + 4], "little")] = stack[-1]
                at += 4
            elif opcode == 0x2E:  # STOP
                return stack.pop()
            else:
                self.at = at
                self._step(opcode)
                at = self.at

    def _step(self, opcode: int) -> None:
        """Take a step that is rarer, by a table."""
        step = _STEPS.get(opcode)
        if step is None:
            name = _NAMES.get(opcode)
            raise InstanceError(
                "a pickle of plain containers is needed, found the opcode "
                f"{name or hex(opcode)}, which is none of theirs; nothing was run"
            )
        step(self)

    def take(self, length: int) -> bytes:
        end = self.at + length
        if end > len(self.data):
            raise InstanceError(
                f"the file is no whole pickle: {length} bytes are said to follow, found "
                f"{len(self.data) - self.at}"
            )
        taken = self.data[self.at : end]
        self.at = end
        return taken

    def number(self, form: str) -> Any:
        (value,) = struct.unpack(form, self.take(struct.calcsize(form)))
        return value

    def push(self, value: Any) -> None:
        self.scalars += 1
        self._require_room()
        self.stack.append(value)

    def push_container(self, value: Any) -> None:
        self.containers += 1
        self._require_room()
        self.stack.append(value)

    def _require_room(self) -> None:
        if self.containers > MAX_CONTAINERS or self.scalars > MAX_SCALARS:
            raise InstanceError(
                f"at most {MAX_CONTAINERS} containers and {MAX_SCALARS} numbers and strings are "
                "read, found more"
            )

    def pop_to_mark(self) -> list[Any]:
        mark = self.marks.pop()
        values = self.stack[mark:]
        del self.stack[mark:]
        return values

    def push_tuple(self, length: int) -> None:
        if len(self.stack) < length:
            raise IndexError
        values = tuple(self.stack[-length:])
        del self.stack[-length:]
        self.push_container(values)

    def extend_list(self, values: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not list:
            raise TypeError
        target.extend(values)

    def update_dict(self, values: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not dict or len(values) % 2:
            raise TypeError
        keys = values[::2]
        if not set(map(type, keys)) <= {str}:
            wrong = next(key for key in keys if type(key) is not str)
            raise InstanceError(f"a string as the key of an entry is needed, found {shown(wrong)}")
        target.update(zip(keys, values[1::2], strict=True))

    def push_dict(self) -> None:
        values = self.pop_to_mark()
        self.push_container({})
        self.update_dict(values)

    def set_item(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self.update_dict([key, value])

    def append_item(self) -> None:
        value = self.stack.pop()
        self.extend_list([value])

    def _refuse_integer(self, length: int) -> NoReturn:
        raise InstanceError(
            f"a whole number of at most {MAX_INTEGER_BYTES} bytes, all there, is needed, found one "
            f"of {length} bytes"
        )


def _string(form: str) -> Any:
    return lambda m: m.push(str(m.take(m.number(form)), "utf-8", "surrogatepass"))


def _bytes(form: str) -> Any:
    return lambda m: m.push(m.take(m.number(form)))


_STEPS: dict[int, Any] = {
    opcode[0]: step
    for opcode, step in {
        pickle.FRAME: lambda m: m.number("<Q"),
        pickle.NONE: lambda m: m.push(None),
        pickle.NEWTRUE: lambda m: m.push(True),
        pickle.NEWFALSE: lambda m: m.push(False),
        pickle.BININT: lambda m: m.push(m.number("<i")),
        pickle.BININT2: lambda m: m.push(m.number("<H")),
        pickle.BINFLOAT: lambda m: m.push(m.number(">d")),
        pickle.SHORT_BINUNICODE: _string("<B"),
        pickle.BINUNICODE: _string("<I"),
        pickle.BINUNICODE8: _string("<Q"),
        pickle.SHORT_BINBYTES: _bytes("<B"),
        pickle.BINBYTES: _bytes("<I"),
        pickle.BINBYTES8: _bytes("<Q"),
        pickle.EMPTY_LIST: lambda m: m.push_container([]),
        pickle.EMPTY_DICT: lambda m: m.push_container({}),
        pickle.EMPTY_TUPLE: lambda m: m.push(()),
        pickle.TUPLE1: lambda m: m.push_tuple(1),
        pickle.TUPLE2: lambda m: m.push_tuple(2),
        pickle.TUPLE3: lambda m: m.push_tuple(3),
        pickle.TUPLE: lambda m: m.push_container(tuple(m.pop_to_mark())),
        pickle.LIST: lambda m: m.push_container(m.pop_to_mark()),
        pickle.DICT: lambda m: m.push_dict(),
        pickle.APPEND: lambda m: m.append_item(),
        pickle.APPENDS: lambda m: m.extend_list(m.pop_to_mark()),
        pickle.SETITEM: lambda m: m.set_item(),
        pickle.SETITEMS: lambda m: m.update_dict(m.pop_to_mark()),
    }.items()
}
