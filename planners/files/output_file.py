"""Writes all output files: an old file stays whole until the new one in its place is complete.

Note: how. The bytes go to a new file in the folder of the target. This file is synced to the disk
and then renamed to the target, which is atomic. So a full disk, Ctrl-C or a power cut leaves either
the old file or the new one. The new file has the permissions of the old one; if there was none, the
umask decides. A symbolic link stays, and the file that it leads to is replaced. Other hard links
keep the old content. A pipe, a device or a standard stream has no old content to keep, and is
written directly. A process that is killed by SIGKILL leaves its unfinished file, whose name begins
with ``.gapless-``.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO

from planners.errors import GaplessError
from planners.files.named_instance import instance_file

_UNFINISHED = ".gapless-"
_STANDARD_STREAMS = (1, 2)


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[IO[bytes]]:
    """Give a file to write, which replaces the target if the ``with`` body raises no error."""
    try:
        with _opened(path) as file:
            yield file
    except OSError as error:
        raise GaplessError(f"{path}: it cannot be written: {error.strerror or error}") from None
    except ValueError as error:
        if "null" not in str(error):
            raise
        raise GaplessError(f"{str(path)!r}: no file can have this name: {error}") from None


def write_output(path: str | Path, data: bytes) -> None:
    """Write these bytes as a whole file, as :func:`replacing` does."""
    with replacing(path) as file:
        file.write(data)


def say_written(path: Path, text: str) -> None:
    """Print a line on standard output, or on standard error unless the path is a plain file."""
    stream = sys.stdout if _is_plain(path) else sys.stderr
    print(text, file=stream, flush=True)


def require_targets(targets: Mapping[str, Path | None], inputs: Iterable[Path | None] = ()) -> None:
    """Check the files that a command will write, before it does any work.

    `targets` has the path that each option gives, or None if the option was not given. No target
    may be a folder, an input, or another target, even if a link gives it another name.
    """
    chosen = {option: path for option, path in targets.items() if path is not None}
    sources = [instance_file(path) for path in inputs if path is not None and chosen]
    for option, path in chosen.items():
        _require_place(option, path)
        for source in sources:
            if _is_same_file(path, source):
                raise GaplessError(
                    f"{option} {path}: a file of its own is needed, found {source}, which this "
                    f"command reads"
                )
    for option, path in chosen.items():
        for other, taken in chosen.items():
            if other < option and _is_same_file(path, taken):
                raise GaplessError(f"{other} and {option}: two files are needed, found {path}")


def require_suffix(option: str, path: Path, content: str, suffixes: Iterable[str]) -> None:
    """Refuse the name of a plain file that ends in none of the suffixes of its content."""
    known = tuple(suffixes)
    if path.name.lower().endswith(known) or not _is_plain(path):
        return
    raise GaplessError(
        f"{option} {path}: {content} is written as {' or '.join(known)}, found the name "
        f"{path.name!r}"
    )


@contextlib.contextmanager
def _opened(path: str | Path) -> Iterator[IO[bytes]]:
    there = _status(path)
    stream = _standard_stream(there)
    if stream is not None:
        if sys.stdout is not None:
            sys.stdout.flush()
        with open(os.dup(stream), "wb") as file:
            yield file
    elif there is not None and not stat.S_ISREG(there.st_mode):
        with open(path, "wb") as file:
            yield file
    else:
        with _replacing_plain_file(os.path.realpath(path), there) as file:
            yield file


@contextlib.contextmanager
def _replacing_plain_file(target: str, there: os.stat_result | None) -> Iterator[IO[bytes]]:
    if there is not None and not os.access(target, os.W_OK):
        raise PermissionError(0, "it is write-protected")
    folder = os.path.dirname(target)
    unfinished = os.path.join(folder, f"{_UNFINISHED}{secrets.token_hex(8)}")
    try:
        # 0o666 less the umask, as for any new file.
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        with open(descriptor, "wb") as file:
            if there is not None:
                # The new file gets the owner of the old one, if this process may change owners.
                with contextlib.suppress(PermissionError):
                    os.fchown(descriptor, there.st_uid, there.st_gid)
                os.fchmod(descriptor, stat.S_IMODE(there.st_mode))
            yield file
            file.flush()
            os.fsync(descriptor)
        os.replace(unfinished, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(unfinished)
        raise
    _bring_to_disk(folder)


def _bring_to_disk(folder: str) -> None:
    # The file is complete and in place already. A folder that cannot be synced is not an error.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _require_place(option: str, path: Path) -> None:
    try:
        there = _status(path)
    except ValueError as error:
        raise GaplessError(f"{option} {path!r}: no file can have this name: {error}") from None
    except OSError as error:
        raise GaplessError(f"{option} {path}: it cannot be written: {error.strerror}") from None
    if there is not None and not stat.S_ISREG(there.st_mode):
        if stat.S_ISDIR(there.st_mode):
            raise GaplessError(f"{option} {path}: a file is needed, found a folder")
        return
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise GaplessError(f"{option} {path}: the folder {path.parent} does not exist")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise GaplessError(f"{option} {path}: no file can be made in {path.parent}")
    if there is not None and not os.access(path, os.W_OK):
        raise GaplessError(f"{option} {path}: it is write-protected")


def _is_same_file(path: Path, other: Path) -> bool:
    first, second = _status(path), None
    with contextlib.suppress(OSError, ValueError):
        second = _status(other)
    if first is not None and second is not None:
        # Writing to a terminal or a device destroys nothing that is read from it.
        return stat.S_ISREG(first.st_mode) and os.path.samestat(first, second)
    return first is second and os.path.realpath(path) == os.path.realpath(other)


def _is_plain(path: Path) -> bool:
    """Return True if a path leads to nothing yet, or to a plain file but not a standard stream."""
    there = _status(path)
    return there is None or (stat.S_ISREG(there.st_mode) and _standard_stream(there) is None)


def _status(path: str | Path) -> os.stat_result | None:
    """Return the status of the file that a path leads to; None if there is none."""
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _standard_stream(there: os.stat_result | None) -> int | None:
    """Return the descriptor of the standard stream that leads to a file, if any.

    Such a file is written through this descriptor. Opened anew, it would be written from its start.
    """
    for stream in _STANDARD_STREAMS:
        with contextlib.suppress(OSError):
            if there is not None and os.path.samestat(os.fstat(stream), there):
                return stream
    return None
