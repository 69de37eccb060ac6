"""The one writer of files: what lies there stays whole until what replaces it is complete.

Note: how. The bytes go to a new file in the folder of the target, are brought to the disk and only
then take the target's name, which the system does at once or not at all. So a full disk, Ctrl-C or
a power cut leave the old file or the new one and nothing between. The new file has the
permissions of the old one, or those that the umask leaves; a symbolic link stays, and what it leads
to is replaced; other hard links keep the old content. Where there is nothing to keep, as on a pipe
or a device, bytes go there as they come. A process that is killed outright leaves its unfinished
file, whose name begins with ``.gapless-``.
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
    """Give a file to write, which takes the target's place when the body ends without raising."""
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
    """Write a file at once, as :func:`replacing` does."""
    with replacing(path) as file:
        file.write(data)


def say_written(path: Path, text: str) -> None:
    """Say on standard output what was written; elsewhere where it may be what was written to."""
    stream = sys.stdout if _is_plain(path) else sys.stderr
    print(text, file=stream, flush=True)


def require_targets(targets: Mapping[str, Path | None], inputs: Iterable[Path | None] = ()) -> None:
    """Check what a command is going to write before it does any work.

    Targets stand under the option that names each, None where it was not given. None may be a
    folder, an input, or another target, under this or another name.
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
    """Refuse a name that does not say what will be in the file."""
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
                # Another's file stays another's, where we may say so.
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
    # The file is whole and in its place; where a folder cannot be synced, that has to do.
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
        # What is read from a terminal or a device is not lost by writing to it.
        return stat.S_ISREG(first.st_mode) and os.path.samestat(first, second)
    return first is second and os.path.realpath(path) == os.path.realpath(other)


def _is_plain(path: Path) -> bool:
    """Return whether a path leads to a file, or to none yet, and not to a standard stream."""
    there = _status(path)
    return there is None or (stat.S_ISREG(there.st_mode) and _standard_stream(there) is None)


def _status(path: str | Path) -> os.stat_result | None:
    """Return what the system says of what a path leads to; None where nothing is there."""
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _standard_stream(there: os.stat_result | None) -> int | None:
    """Return the standard stream that a file is: anew it would be opened at its start."""
    for stream in _STANDARD_STREAMS:
        with contextlib.suppress(OSError):
            if there is not None and os.path.samestat(os.fstat(stream), there):
                return stream
    return None
