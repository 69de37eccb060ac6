"""Files from anywhere, read whole and never beyond a bound."""

from __future__ import annotations

from pathlib import Path

from planners.errors import InstanceError

_CHUNK_BYTES = 1 << 20


def read_bounded(path: Path, limit: int) -> bytes:
    """Read a file that holds at most so many bytes.

    Parameters
    ----------
    path
        The file; untrusted.
    limit
        Bytes; of a longer file hardly more than these are read.

    Returns
    -------
    bytes
        The whole file.

    Raises
    ------
    InstanceError
        The file cannot be read or is longer. The message leaves out the path.
    """
    try:
        with path.open("rb") as file:
            # In pieces: one read of so many bytes would set them aside for the smallest file.
            chunks, room = [], limit
            while chunk := file.read(_CHUNK_BYTES):
                chunks.append(chunk)
                room -= len(chunk)
                if room < 0:
                    raise InstanceError(f"at most {limit} bytes are read, found more")
    except OSError as error:
        raise InstanceError(f"the file cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise InstanceError(f"no file can have this name: {error}") from None
    return b"".join(chunks)


def read_bounded_text(path: Path, limit: int) -> str:
    """Read a text file that holds at most so many bytes.

    Parameters
    ----------
    path
        The file, UTF-8 with or without a byte order mark; untrusted.
    limit
        Bytes.

    Returns
    -------
    str
        The whole text.

    Raises
    ------
    InstanceError
        The file cannot be read, is longer, or is no UTF-8. The message leaves out the path.
    """
    try:
        return read_bounded(path, limit).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InstanceError(f"the file is no UTF-8 text: byte {error.start}") from None
