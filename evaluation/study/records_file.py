"""The file of records: a line a run, appended whole, and safe from a kill at any moment.

Note: what survives
-------------------
Rationale. A study runs for days; the process that writes may be killed in the middle of a line, and
so may the machine.

Approach. A line is written by one call, at the end of the file, and brought to disk before the run
counts as done. What stands behind the last end of a line was never counted, and is cut off when the
file is opened again. A lock that the system opens when its holder dies keeps a second writer out.

Limits. A file system that says that data is on disk before it is can lose lines, from the end on.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from evaluation.study.record import Machine, Record
from planners.errors import GaplessError, InstanceError
from planners.files.output_file import write_output

# Looked at, at once, for the end of the last line.
_PIECE_BYTES = 1 << 16


@dataclass(frozen=True)
class KnownRecord:
    """What the runner needs to know of a record that is there already."""

    line: int
    study: str
    run: str
    asked: str
    failed: bool
    machine: Machine


def read_records(path: Path) -> Iterator[Record]:
    """Read the records of a file, whole lines only.

    Parameters
    ----------
    path
        What ``python -m evaluation.study run`` wrote, or is still writing.

    Yields
    ------
    Record
        In the order in which runs ended.

    Raises
    ------
    InstanceError
        A line is no record; the message has its number.
    """
    with _opened(path) as lines:
        for number, line in enumerate(lines, 1):
            if line.endswith("\n"):
                yield Record.from_json(line, f"{path}:{number}")


class RecordsFile:
    """The records of a study on disk, to which new ones are added."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self.known = [
            KnownRecord(number, its.study, its.run, its.asked, its.failed, its.machine)
            for number, its in enumerate(read_records(path), 1)
        ]

    def append(self, line: str) -> None:
        """Bring one more record to disk."""
        data = f"{line}\n".encode()
        if os.write(self._descriptor, data) != len(data):
            raise GaplessError(f"{self.path}: the disk is full; the last record was not kept")
        if _is_plain(self._descriptor):
            os.fsync(self._descriptor)


@contextmanager
def records_file(path: Path) -> Iterator[RecordsFile]:
    """Open a file of records, or begin one; a line that was torn by a kill is cut off."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise GaplessError(
                f"{path}: another run of a study writes here; wait for its end, or write to "
                f"another file with -o"
            ) from None
        if _is_plain(descriptor):
            _cut_torn_line(descriptor)
        yield RecordsFile(path, descriptor)
    finally:
        os.close(descriptor)


def _is_plain(descriptor: int) -> bool:
    # A device, such as /dev/null, keeps nothing.
    return stat.S_ISREG(os.fstat(descriptor).st_mode)


def drop_lines(path: Path, numbers: Sequence[int]) -> None:
    """Write a file of records anew without some of its lines, counted from 1."""
    dropped = set(numbers)
    with _opened(path) as lines:
        kept = [line for number, line in enumerate(lines, 1) if number not in dropped]
    write_output(path, "".join(kept).encode())


@contextmanager
def _opened(path: Path) -> Iterator[Iterator[str]]:
    try:
        with path.open(encoding="utf-8", newline="\n") as lines:
            yield lines
    except UnicodeDecodeError as error:
        raise InstanceError(f"{path}: the file is no UTF-8 text: byte {error.start}") from None


def _cut_torn_line(descriptor: int) -> None:
    end = os.fstat(descriptor).st_size
    while end > 0:
        begin = max(0, end - _PIECE_BYTES)
        found = os.pread(descriptor, end - begin, begin).rfind(b"\n")
        if found >= 0:
            end = begin + found + 1
            break
        end = begin
    os.ftruncate(descriptor, end)
