"""Pipes and devices, which give their bytes once, for readers that look at a file twice."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from planners.bounded_file import pieces_of
from planners.errors import GaplessError, InstanceError

MAX_STREAM_BYTES = 1 << 29


@contextmanager
def readable_twice(path: Path) -> Iterator[Path]:
    """Give a file that can be opened more than once.

    Parameters
    ----------
    path
        A file, or what can be read only once: ``/dev/stdin``, a FIFO, ``<(zcat a.json.gz)``.

    Yields
    ------
    pathlib.Path
        The file itself, or a copy of the same name, there until the context ends. Errors that leave
        the context name `path`.

    Raises
    ------
    InstanceError
        It cannot be read, or never ends.
    """
    if not _gives_bytes_once(path):
        yield path
        return
    with TemporaryDirectory(prefix="gapless-") as folder:
        copy = Path(folder, path.name)
        _copy(path, copy)
        try:
            yield copy
        except GaplessError as error:
            error.args = (str(error).replace(str(copy), str(path)),)
            raise


def _gives_bytes_once(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False  # Whoever opens it says why it cannot be.
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISBLK(mode)


def _copy(path: Path, copy: Path) -> None:
    room = MAX_STREAM_BYTES
    try:
        with copy.open("wb") as file:
            for piece in pieces_of(path, MAX_STREAM_BYTES + 1):
                room -= len(piece)
                file.write(piece)
        if room < 0:
            raise InstanceError(f"at most {MAX_STREAM_BYTES} bytes are read, found more")
    except InstanceError as error:
        raise InstanceError(f"{path}: {error}") from None
    except OSError as error:
        reason = f"no copy can be kept in {copy.parent}: {error.strerror}"
        raise InstanceError(f"{path}: {reason}") from None
