"""Copies of pipes and devices, which give their bytes once, for readers that read twice."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from planners.errors import GaplessError, InstanceError, errors_at
from planners.files.bounded_file import read_bounded
from planners.files.file_limits import MAX_BINARY_BYTES
from planners.files.named_instance import instance_file


@contextmanager
def readable_twice(path: Path) -> Iterator[Path]:
    """Yield the file, or a copy of a pipe or device; errors name the path given.

    The name of an instance of a catalogue stands for its file, if no file has that name.
    """
    path = instance_file(path)
    if not _gives_bytes_once(path):
        yield path
        return
    # All bytes are read before the folder is made: a signal may end this process while it waits for
    # the pipe, and would leave the folder behind.
    with errors_at(path):
        data = read_bounded(path, MAX_BINARY_BYTES)
    with TemporaryDirectory(prefix="gapless-") as folder:
        copy = Path(folder, path.name)
        try:
            copy.write_bytes(data)
        except OSError as error:
            reason = f"no copy can be kept in {folder}: {error.strerror}"
            raise InstanceError(f"{path}: {reason}") from None
        del data
        try:
            yield copy
        except GaplessError as error:
            error.args = (str(error).replace(str(copy), str(path)),)
            raise


def _gives_bytes_once(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False  # the later attempt to open the file reports the error
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISBLK(mode)
