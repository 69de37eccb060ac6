"""Reads untrusted archives of arrays (``.npz``), bounded before memory is taken for them.

Note: no part of NumPy's own reader
-----------------------------------
Rationale. A zip archive of a megabyte can unfold to a gigabyte of single bytes, which a reader then
widens to int64. NumPy evaluates the header of an array as Python and allocates what its shape says.

Approach. Members are read only in the form in which ``savez`` and ``savez_compressed`` write them:
stored or deflated, each array once, with a header of a fixed form. All headers are read first. All
entries, at eight bytes or more each, must stay within a multiple of the bytes of the file. Only
then is an array unpacked, and it must be as long as its header says.

Limits. Recordings unfold to 17 to 40 times their compressed bytes. A recording that repeats itself
exactly may unfold to more and be refused; ``savez`` writes it in a form that is read.
"""

from __future__ import annotations

import io
import math
import re
import struct
import zipfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planners.errors import InstanceError
from planners.files.bounded_file import read_bounded
from planners.files.file_limits import MAX_BINARY_BYTES, Allowance

ARRAY_BYTES = Allowance("bytes of arrays", free=1 << 25, for_bytes=1, more=100)

# Members of an archive. The zip module makes an object of some 600 bytes for an entry of 46 bytes.
MAX_MEMBERS = 1 << 10
_ENTRY = b"PK\x01\x02"

_MAGIC = b"\x93NUMPY"
_LENGTH_OF_VERSION = {1: "<H", 2: "<I", 3: "<I"}
MAX_HEADER_BYTES = 1 << 12
_HEADER = re.compile(
    rb"\{'descr': '([<>|=][a-zA-Z][0-9]{0,9})', 'fortran_order': (?:False|True), "
    rb"'shape': \(((?:[0-9]{1,18}, ?)*[0-9]{0,18})\),? ?\} *\n?"
)


def load_arrays(path: Path, names: Collection[str], limit: int) -> dict[str, NDArray[Any]]:
    """Read the named arrays that an archive has; nothing in it is unpickled.

    The limit applies to the bytes of these arrays together, with at least eight for each entry.
    The file is untrusted, the arrays are not writable, and messages leave out the path.
    """
    return arrays_in(read_bounded(path, MAX_BINARY_BYTES), names, limit)


def arrays_in(data: bytes, names: Collection[str], limit: int) -> dict[str, NDArray[Any]]:
    """Read the named arrays from the bytes of an archive, under the same rules."""
    try:
        if data.count(_ENTRY) > MAX_MEMBERS:
            raise InstanceError(f"at most {MAX_MEMBERS} arrays are taken, found more")
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = _members(archive, names)
            headers = {name: _read_header(archive, name, members[name]) for name in members}
            most = min(limit, ARRAY_BYTES.of(len(data)))
            total = sum(header.taken_bytes for header in headers.values())
            if total > most:
                raise InstanceError(
                    f"at most {most} bytes of arrays are taken of an archive of {len(data)} bytes, "
                    f"found {total}"
                )
            return {name: _load(archive, members[name], headers[name]) for name in members}
    except InstanceError:
        raise
    except Exception as error:  # zipfile raises many kinds on damaged archives
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InstanceError(f"the file is not a whole archive of arrays: {reason:.200}") from None


@dataclass(frozen=True)
class _Header:
    kind: np.dtype[Any]
    shape: tuple[int, ...]
    # Position of the first entry in the member, in bytes.
    begin: int

    @property
    def entries(self) -> int:
        return math.prod(self.shape)

    @property
    def taken_bytes(self) -> int:
        return self.entries * max(self.kind.itemsize, 8)


def _members(archive: zipfile.ZipFile, names: Collection[str]) -> dict[str, zipfile.ZipInfo]:
    found: dict[str, zipfile.ZipInfo] = {}
    for member in archive.infolist():
        name = member.filename.removesuffix(".npy")
        if name not in names or name == member.filename:
            continue
        if name in found:
            raise InstanceError(f"array {name}: given twice")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise InstanceError(f"array {name}: a stored or a deflated member is needed")
        found[name] = member
    return found


def _read_header(archive: zipfile.ZipFile, name: str, member: zipfile.ZipInfo) -> _Header:
    with archive.open(member) as file:
        start = file.read(len(_MAGIC) + 2)
        form = _LENGTH_OF_VERSION.get(start[-2]) if len(start) == len(_MAGIC) + 2 else None
        if form is None or not start.startswith(_MAGIC):
            raise InstanceError(f"array {name}: an array in NumPy's format is needed")
        (length,) = struct.unpack(form, file.read(struct.calcsize(form)))
        text = file.read(min(length, MAX_HEADER_BYTES))
        begin = file.tell()
    match = _HEADER.fullmatch(text)
    if match is None or length != len(text):
        raise InstanceError(
            f"the file is not a whole archive of arrays: array {name}: a header of one plain type "
            f"is needed, found {text[:60]!r}"
        )
    kind = np.dtype(match[1].decode())
    if kind.hasobject:
        raise InstanceError(
            f"the file is not a whole archive of arrays: array {name}: numbers or strings are "
            f"needed, found objects, which are never unpickled"
        )
    shape = tuple(int(size) for size in match[2].replace(b",", b" ").split())
    header = _Header(kind, shape, begin)
    said, there = header.entries * kind.itemsize, member.file_size - begin
    if said != there:
        raise InstanceError(
            f"array {name}: the {said} bytes of its header are needed, found {there}"
        )
    return header


def _load(archive: zipfile.ZipFile, member: zipfile.ZipInfo, header: _Header) -> NDArray[Any]:
    with archive.open(member) as file:
        file.read(header.begin)
        data = file.read()
    return np.frombuffer(data, header.kind, header.entries).reshape(header.shape)
