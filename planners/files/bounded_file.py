"""Reads untrusted files once, whole, and never beyond a bound."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from planners.errors import InstanceError

CHUNK_BYTES = 1 << 20


def read_bounded(path: Path, limit: int) -> bytes:
    """Read a whole file, pipe or device that holds at most ``limit`` bytes.

    Errors here leave out the path: the reader of the format adds it.
    """
    pieces: list[bytes] = []
    room = limit
    for piece in pieces_of(path, limit + 1):
        room -= len(piece)
        pieces.append(piece)
    if room < 0:
        raise InstanceError(f"at most {limit} bytes are read, found more")
    return b"".join(pieces)


def require_plain_file(path: Path) -> None:
    """Refuse a pipe or a device, from which a read may never end."""
    if path.exists() and not path.is_file():
        raise InstanceError(f"{path}: a plain file is needed, found none")


def pieces_of(path: Path, most: int) -> Iterator[bytes]:
    """Yield at most ``most`` bytes of a file in pieces; a file of known size is one piece."""
    try:
        with path.open("rb") as file:
            # The first read asks for the whole known size, so that no pieces need joining. A read
            # of `most` bytes would allocate as many even for the smallest file.
            ask = min(os.fstat(file.fileno()).st_size + 1, most)
            while most > 0 and (piece := file.read(ask)):
                yield piece
                most -= len(piece)
                ask = min(CHUNK_BYTES, most)
    except OSError as error:
        raise InstanceError(f"the file cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise InstanceError(f"no file can have this name: {error}") from None


def read_bounded_text(path: Path, limit: int) -> str:
    """Read a bounded text file, UTF-8 with or without a byte order mark."""
    try:
        return read_bounded(path, limit).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InstanceError(f"the file is no UTF-8 text: byte {error.start}") from None
