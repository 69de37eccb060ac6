"""Files from anywhere, read whole and never beyond a bound."""

from __future__ import annotations

from pathlib import Path

from planners.errors import InstanceError


def read_bounded(path: Path, limit: int) -> bytes:
    """Read a file that holds at most so many bytes.

    Parameters
    ----------
    path
        The file; untrusted.
    limit
        Bytes; of a longer file no more than these and one are read.

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
            data = file.read(limit + 1)
    except OSError as error:
        raise InstanceError(f"the file cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise InstanceError(f"no file can have this name: {error}") from None
    if len(data) > limit:
        raise InstanceError(f"at most {limit} bytes are read, found more")
    return data


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
