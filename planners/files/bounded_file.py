"""Reads untrusted files once, whole, and never beyond a bound."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from pathlib import Path

from planners.errors import InstanceError
from planners.files.file_limits import Allowance

CHUNK_BYTES = 1 << 20
GZIP_MAGIC = b"\x1f\x8b"


def read_bounded(path: Path, limit: int) -> bytes:
    """Read a whole file, pipe or device that holds at most ``limit`` bytes.

    Errors here leave out the path: the reader of the format adds it.
    """
    pieces = list(pieces_of(path, limit + 1))
    if sum(map(len, pieces)) > limit:
        raise InstanceError(f"at most {limit} bytes are read, found more")
    return b"".join(pieces)


def require_plain_file(path: Path) -> None:
    """Refuse a pipe or a device, from which a read may never end."""
    if path.exists() and not path.is_file():
        raise InstanceError("a plain file is needed, found none")


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


def unpacked_pieces(path: Path, unpacked: Allowance) -> Iterator[bytes]:
    """Yield a file in pieces, unpacked if it is gzipped, as far as the allowance goes."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            is_packed = file.peek(2).startswith(GZIP_MAGIC)
            source = gzip.GzipFile(fileobj=file) if is_packed else file
            done = 0
            while piece := source.read(CHUNK_BYTES):
                done += len(piece)
                unpacked.require(done, size)
                yield piece
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InstanceError(f"the file is not a whole gzip file: {error}") from None
    except OSError as error:
        raise InstanceError(f"the file cannot be read: {error.strerror or error}") from None


def read_bounded_text(path: Path, limit: int) -> str:
    """Read a bounded text file, UTF-8 with or without a byte order mark."""
    try:
        return read_bounded(path, limit).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InstanceError(f"the file is not UTF-8 text: byte {error.start}") from None
