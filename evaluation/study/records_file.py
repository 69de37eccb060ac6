"""The file of records: a line a run, appended whole, and safe from a kill at any moment.

Note: records survive a kill
----------------------------
Rationale. A study runs for days; the process that writes may be killed in the middle of a line, and
so may the machine.

Approach. A line is written by one call, at the end of the file, and brought to disk before the run
counts as done. Bytes behind the last end of a line belong to a run that was never counted. If they
begin a record, they are cut off before the next line is written; any other file is refused. A lock
keeps a second writer out, from before the file is read until its holder ends; the system releases
it when the holder dies. The lock is on a file, not on its name. A writer that replaces the file
locks the new one before it takes the name, and each holder checks that the name leads to its file.

Limits. A file system that says that data is on disk before it is can lose lines, from the end on.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from evaluation.study.record import FIRST_OF_A_LINE, MOST_LINE_BYTES, AnyRecord, Machine, Record
from planners.errors import GaplessError, InstanceError
from planners.files.output_file import replacing, require_targets
from planners.text.plain_text import shown


@dataclass(frozen=True)
class KnownRecord:
    """The fields of an existing record that the runner reads."""

    line: int
    study: str
    run: str
    asked: str
    failed: bool
    machine: Machine
    instance_digest: str
    plugin: Mapping[str, str]


def read_records(path: Path) -> Iterator[AnyRecord]:
    """Read the records of a file in the order in which runs ended, whole lines only."""
    for where, line in _lines(path):
        if line.endswith(b"\n"):
            yield Record.from_json(line, where)


class RecordsFile:
    """The records of a study on disk, to which new ones are added; its lock is held."""

    def __init__(self, path: Path, descriptor: int, held: ExitStack) -> None:
        self.path = path
        self._descriptor, self._held = descriptor, held
        self._read()

    def _read(self) -> None:
        self.known: list[KnownRecord] = []
        # Offset of a torn last line, which is cut off before the next write; None without one.
        self._torn_at: int | None = None
        end = 0
        for number, (where, line) in enumerate(_lines(self.path), 1):
            if not line.endswith(b"\n"):
                _require_torn(line, where)
                self._torn_at = end
                break
            its = Record.from_json(line, where)
            self.known.append(
                KnownRecord(
                    number, its.study, its.run, its.asked, its.failed, its.machine,
                    its.instance_digest, its.plugin,
                )
            )  # fmt: skip
            end += len(line)

    def append(self, line: str) -> None:
        """Bring one more record to disk."""
        if not _leads_to(self.path, self._descriptor):
            raise GaplessError(
                f"{self.path}: the file was replaced or taken away while records were added to "
                f"it; the last one was not kept"
            )
        data = f"{line}\n".encode()
        try:
            if self._torn_at is not None:
                os.ftruncate(self._descriptor, self._torn_at)
                self._torn_at = None
            written = os.write(self._descriptor, data)
            if not _is_null_device(self._descriptor):
                os.fsync(self._descriptor)
        except OSError as error:
            raise GaplessError(
                f"{self.path}: the last record was not kept: {error.strerror or error}"
            ) from None
        if written != len(data):
            raise GaplessError(f"{self.path}: the disk is full; the last record was not kept")

    def drop(self, numbers: Collection[int]) -> None:
        """Write the file anew without some of its lines, counted from 1."""
        with self.path.open("rb") as old, replacing(self.path) as new:
            for number, line in enumerate(old, 1):
                if number not in numbers and line.endswith(b"\n"):
                    new.write(line)
            # The lock belongs to the open file, which the duplicated descriptor keeps open.
            fcntl.flock(new, fcntl.LOCK_EX)
            fcntl.fcntl(new, fcntl.F_SETFL, os.O_APPEND)
            self._descriptor = os.dup(new.fileno())
            self._held.callback(os.close, self._descriptor)
        self._read()


@contextmanager
def records_file(path: Path, inputs: Iterable[Path] = ()) -> Iterator[RecordsFile]:
    """Open a file of records, or begin one; a file of anything else is refused and left as it is.

    None of the inputs may be this file, under any name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    require_targets({"--output": path}, inputs)
    with ExitStack() as held:
        yield RecordsFile(path, _locked(path, held), held)


def _locked(path: Path, held: ExitStack) -> int:
    """Open the file that a path leads to, and lock it."""
    # Opening a pipe would block.
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
    while True:
        descriptor = os.open(path, flags, 0o644)
        held.callback(os.close, descriptor)
        if _is_null_device(descriptor):
            return descriptor
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise GaplessError(
                f"--output {path}: a plain file is needed, for records are read from it as well, "
                f"found none"
            )
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise GaplessError(
                f"{path}: another run of a study writes here; wait for its end, or write to "
                f"another file with -o"
            ) from None
        if _leads_to(path, descriptor):
            return descriptor


def _is_null_device(descriptor: int) -> bool:
    # The null device keeps nothing, so there is nothing to lock.
    return os.path.samestat(os.stat(os.devnull), os.fstat(descriptor))


def _leads_to(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _lines(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield each line of a file behind its place, ``path:number``."""
    with path.open("rb") as file:
        lines = iter(lambda: file.readline(MOST_LINE_BYTES + 1), b"")
        for number, line in enumerate(lines, 1):
            if len(line) > MOST_LINE_BYTES:
                raise InstanceError(
                    f"{path}:{number}: at most {MOST_LINE_BYTES} bytes are needed, found more"
                )
            yield f"{path}:{number}", line


def _require_torn(line: bytes, where: str) -> None:
    """Refuse a last line without an end, unless it begins a record and a kill left it."""
    if not any(line.startswith(begin) or begin.startswith(line) for begin in FIRST_OF_A_LINE):
        raise InstanceError(
            f"{where}: a record is needed, found {shown(line[:60])}; write to another file with -o"
        )
