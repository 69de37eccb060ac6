"""Mutations of valid files: of their bytes, of the values in them, and of what packs them."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import re
import zipfile
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np

from instances.formats.plain_pickle import load_plain

NUMBERS = (
    0, 1, -1, 2, 7, 255, 256, 65535, 2**31 - 1, 2**31, 2**32, 2**40, 2**53, 2**60, 2**61 - 1, 2**61,
    2**62, 2**63 - 1, 2**63, 2**64, -(2**63), -(2**62), 10**9, 999_999_999, 10**30, 10**300,
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0.5, float("inf"), float("nan"), "", "a", "\n\x1b[31m", "\ud800", "9" * 50,
    [], {}, [[]], [0], [0, 1], {"a": 1}, (), (0, 1), b"", "x" * 5000,
)  # fmt: skip
# A file that has grown so far is not changed any more.
MAX_BYTES = 1 << 20
SIGNS = b'[]{}(),:"\\-+.eE0123456789 \n\t#=>@\x00\x80\x94\xff'
_NUMBER = re.compile(rb"\d+")


def mutated(random: Random, data: bytes, name: str, others: Sequence[bytes]) -> bytes:
    """Return a file that differs from a valid one in one to four places, some from other files."""
    ways = [_change_bytes] * 3
    if name.endswith((".json", ".plan", ".certificate")):
        ways += [_change_json] * 5
    elif name.endswith(".gz"):
        ways += [_change_gzipped] * 7
    elif name.endswith(".npz"):
        ways += [_change_arrays] * 5 + [_change_members] * 2
    elif name.endswith(".pickle"):
        ways += [_change_pickle] * 5
    else:
        ways += [_change_lines] * 4
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        if len(data) > MAX_BYTES:
            break
        try:
            data = random.choice(ways)(random, data, others)
        except Exception:  # a mutation of a mutation holds nothing that could be changed
            data = _change_bytes(random, data, others)
    return data


def _change_bytes(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    return random.choice(_OF_BYTES)(random, data, others)


def _flip(random: Random, data: bytes, _others: Sequence[bytes]) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 8))):
        if changed:
            changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def _truncate(random: Random, data: bytes, _others: Sequence[bytes]) -> bytes:
    return data[: random.randrange(len(data) + 1)]


def _place(random: Random, data: bytes) -> tuple[int, int]:
    begin = random.randrange(len(data) + 1)
    return begin, min(len(data), begin + random.choice((0, 1, 2, 8, 64, 512)))


def _splice(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    begin, end = _place(random, data)
    other = random.choice([*others, data])
    first, last = _place(random, other)
    return data[:begin] + other[first:last] + data[end:]


def _repeat(random: Random, data: bytes, _others: Sequence[bytes]) -> bytes:
    begin, end = _place(random, data)
    return data[:end] + data[begin:end] * random.choice((1, 2, 50)) + data[end:]


def _delete(random: Random, data: bytes, _others: Sequence[bytes]) -> bytes:
    begin, end = _place(random, data)
    return data[:begin] + data[end:]


def _put_sign(random: Random, data: bytes, _others: Sequence[bytes]) -> bytes:
    begin, _ = _place(random, data)
    sign = random.choice(SIGNS)
    return data[:begin] + bytes([sign]) * random.choice((1, 1, 2, 3000, 100_000)) + data[begin:]


def _inflate(random: Random, data: bytes, _others: Sequence[bytes]) -> bytes:
    numbers = list(_NUMBER.finditer(data))
    if not numbers:
        return data
    found = random.choice(numbers)
    number = random.choice((*NUMBERS, int("9" * random.choice((20, 400, 4000)))))
    return data[: found.start()] + str(number).encode() + data[found.end() :]


_OF_BYTES: tuple[Callable[[Random, bytes, Sequence[bytes]], bytes], ...] = (
    _flip, _truncate, _splice, _repeat, _delete, _put_sign, _inflate, _inflate,
)  # fmt: skip


def _change_lines(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    lines = data.split(b"\n")
    at, there = random.randrange(len(lines)), random.randrange(len(lines))
    way = random.randrange(5)
    if way == 0:
        lines[at], lines[there] = lines[there], lines[at]
    elif way == 1:
        lines.insert(at, lines[there])
    elif way == 2:
        del lines[at]
    elif way == 3:
        lines[at] = _inflate(random, lines[at], others)
    else:
        cells = re.split(rb"([, =:@-])", lines[at])
        cells[random.randrange(len(cells))] = random.choice(
            (b"", b"-1", b"0x", b'"', b"1e9", b"\xff", b"end", b"true", b"[]", b"1_0", b"F", b"all")
        )
        lines[at] = b"".join(cells)
    return b"\n".join(lines)


def changed_value(random: Random, value: Any) -> Any:
    """Change one place of a tree of lists and dictionaries, which is chosen on the way down."""
    if isinstance(value, (list, dict)) and value and random.random() < 0.85:
        changed: Any = value.copy()
        keys: list[Any] = list(range(len(value))) if isinstance(value, list) else list(value)
        key = random.choice(keys)
        way = random.random()
        if way < 0.8:
            changed[key] = changed_value(random, value[key])
        elif way < 0.87:
            del changed[key]
        elif isinstance(value, list):
            changed.insert(key, random.choice(value))
        else:
            changed[random.choice(("a\n", str(key) + "x", "size", "frames"))] = value[key]
        return changed
    choice = random.random()
    if choice < 0.45:
        return random.choice(NUMBERS)
    if choice < 0.6 and isinstance(value, int):
        return value + random.choice((-1, 1, 3, 1000))
    if choice < 0.65:
        return [value] * random.choice((1, 2, 1 if isinstance(value, (list, dict)) else 1000))
    return random.choice(VALUES)


def _change_json(random: Random, data: bytes, _others: Sequence[bytes]) -> bytes:
    fields = json.loads(data)
    text = json.dumps(changed_value(random, fields), default=list)
    if random.random() < 0.05:
        depth = random.choice((10, 900, 50_000))
        text = text.replace("1", "[" * depth + "1" + "]" * depth, 1)
    if random.random() < 0.05:
        text = text.replace("{", '{"size": [1], ', 1)
    return text.encode("utf-8", "surrogatepass")


def _change_gzipped(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    text = gzip.decompress(data)
    way = random.random()
    if way < 0.1:
        return data + gzip.compress(text)
    if way < 0.15:
        return gzip.compress(text + b" " * random.choice((1000, 10**6, 3 * 10**7)), 1)
    if way < 0.2:
        return gzip.compress(data)
    return gzip.compress(_change_json(random, text, others), mtime=0)


def _change_pickle(random: Random, data: bytes, _others: Sequence[bytes]) -> bytes:
    value = changed_value(random, load_plain(lambda: [data], len(data)))
    return pickle.dumps(value, protocol=random.choice((2, 3, 4, 5)))


def _members_of(data: bytes) -> list[tuple[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return [(name, archive.read(name)) for name in archive.namelist()[:64]]


def _packed(members: Sequence[tuple[str, bytes]], method: int) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return file.getvalue()


def _change_arrays(random: Random, data: bytes, _others: Sequence[bytes]) -> bytes:
    members = _members_of(data)
    at = random.randrange(len(members))
    name, content = members[at]
    array = np.lib.format.read_array(io.BytesIO(content))
    file = io.BytesIO()
    np.lib.format.write_array(file, _other_array(random, array), allow_pickle=True)
    members[at] = (name, file.getvalue())
    return _packed(members, zipfile.ZIP_DEFLATED)


def _other_array(random: Random, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    way = random.randrange(6)
    if way < 3 and array.size and array.dtype.kind in "iu":
        changed = array.copy().reshape(-1)
        limits = np.iinfo(array.dtype)
        near = int(changed[0]) + random.choice((-3, -1, 1, 5))
        value = random.choice((*NUMBERS, near, near, near))
        changed[random.randrange(array.size)] = min(max(value, int(limits.min)), int(limits.max))
        return changed
    if way == 3:
        kind = random.choice(("i1", "u1", ">i4", "u8", "f8", "U5", "S3", "O", "?", "M8[s]", "c16"))
        with np.errstate(all="ignore"):
            try:
                return array.astype(kind)
            except (ValueError, TypeError, OverflowError):
                return np.empty(len(array), dtype=kind)
    if way == 4:
        shape = random.choice(((), (0,), (1, -1), (-1, 1)))
        return array[:1].reshape(()) if shape == () and array.size else array.reshape(-1)[:0]
    return np.tile(array, random.choice((0, 2, 200_000 // max(array.size, 1))))


def _change_members(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    members = _members_of(data)
    at = random.randrange(len(members))
    way = random.randrange(4)
    if way == 0:
        del members[at]
    elif way == 1:
        name, content = members[at]
        members[at] = (name, _change_bytes(random, content, others))
    elif way == 2:
        members[at] = (random.choice(members)[0] + "x", members[at][1])
    else:
        members.extend((f"more{index}.npy", b"") for index in range(random.choice((1, 3000))))
    method = random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2))
    return _packed(members, method)
