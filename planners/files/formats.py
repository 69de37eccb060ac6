"""The registry of file formats: readers of instance files, from this package and from others."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from planners.entry_points import foreign, load_group, warn_left_out
from planners.errors import GaplessError, InstanceError, errors_at
from planners.files.bounded_file import GZIP_MAGIC, pieces_of
from planners.files.dimensions import Dimensions
from planners.files.problem_file import read_gapless_json
from planners.files.recording_slice import RecordingSlice
from planners.files.replayed_pipe import readable_twice
from planners.first_use import at_first_use
from planners.model.problem import Problem
from planners.model.request_sequence import RequestSequence, requests_of_problem
from planners.registry import Registry
from planners.text.plain_text import shown

ENTRY_POINT_GROUP = "gapless.formats"
HEAD_BYTES = 4096
WHOLE = RecordingSlice()
NO_DIMENSIONS: Dimensions = {}

Content = TypeVar("Content")


@dataclass(frozen=True)
class Format:
    """A file format that can be read.

    An installed package offers one by an entry point in the group ``gapless.formats`` whose value
    is such an object.

    Parameters
    ----------
    name
        Name in messages; must be free.
    suffixes
        Usual endings of the names of such files.
    recognises
        Takes a file's path and first bytes; returns True if the file is of this format.
    read
        Reads a file; raises ``InstanceError`` with one line if the file breaks a rule.
    read_slice
        Reads a part of a recording; None if files of this format hold problems.
    read_requests
        Reads the requests of a recorded run; None if files of this format hold none.
    read_sized
        Reads a file with sizes for its open dimensions; None if files of this format have none.
    """

    name: str
    suffixes: tuple[str, ...]
    recognises: Callable[[Path, bytes], bool]
    read: Callable[[Path], Problem]
    read_slice: Callable[[Path, RecordingSlice], Problem] | None = None
    read_requests: Callable[[Path], RequestSequence] | None = None
    read_sized: Callable[[Path, Dimensions], Problem] | None = None

    def has_suffix(self, path: Path) -> bool:
        """Return True if the name of a file has an ending of this format."""
        return path.name.lower().endswith(self.suffixes)


def unpacked_head(head: bytes) -> bytes:
    """Return the first bytes of a file, unpacked if the file is gzipped."""
    if head.startswith(GZIP_MAGIC):
        with suppress(zlib.error):
            return zlib.decompressobj(wbits=31).decompress(head, HEAD_BYTES)
    return head


def _is_json(path: Path, head: bytes) -> bool:
    return GAPLESS_JSON.has_suffix(path) or unpacked_head(head).lstrip().startswith(b"{")


GAPLESS_JSON = Format("gapless-json", (".json", ".json.gz"), _is_json, read_gapless_json)
FORMATS: Registry[Format] = Registry("file format")


def read_problem(
    path: str | Path,
    recording_slice: RecordingSlice = WHOLE,
    dimensions: Dimensions = NO_DIMENSIONS,
) -> Problem:
    """Read an instance file of any known format.

    Parameters
    ----------
    path
        The file, of the format that :func:`format_of` finds; a pipe or ``/dev/stdin`` as well.
    recording_slice
        The part of a recording that becomes the problem.
    dimensions
        Sizes of the dimensions that the file leaves open, by name.

    Raises
    ------
    InstanceError
        The file cannot be read, no format recognises it, it breaks a rule of its format, a
        slice is given for a file without a recording, or a dimension is open or unknown.
    """
    with readable_twice(Path(path)) as file:
        return _read(file, recording_slice, dimensions)


def read_requests(path: str | Path) -> RequestSequence:
    """Read the requests for an online allocator: recorded ones, or those of the lifetimes.

    Parameters
    ----------
    path
        As for :func:`read_problem`.

    Raises
    ------
    InstanceError
        As for :func:`read_problem`, or the file has neither a recording nor lifetimes.
    """
    with readable_twice(Path(path)) as file:
        requests = _recorded_requests(file)
        return requests_of_problem(_read(file, WHOLE)) if requests is None else requests


def read_with_requests(
    path: Path, recording_slice: RecordingSlice, dimensions: Dimensions = NO_DIMENSIONS
) -> tuple[Problem, RequestSequence | None]:
    """Read a problem, and the recorded requests if the problem is a whole recording."""
    with readable_twice(path) as file:
        problem = _read(file, recording_slice, dimensions)
        return problem, _recorded_requests(file) if recording_slice == WHOLE else None


def _read(
    path: Path, recording_slice: RecordingSlice, dimensions: Dimensions = NO_DIMENSIONS
) -> Problem:
    form = format_of(path)
    read_slice = form.read_slice
    if recording_slice != WHOLE and read_slice is None:
        recordings = [other.name for other in formats() if other.read_slice is not None]
        raise InstanceError(
            f"{path}: {', '.join(recording_slice.options)}: a recording is needed "
            f"({', '.join(recordings) or 'no known format holds any'}), found {form.name}, "
            f"which holds one problem"
        )
    if dimensions:
        return read_sized(path, form, dimensions)
    if recording_slice == WHOLE or read_slice is None:
        return _answer(path, form, Problem, lambda: form.read(path))
    return _answer(path, form, Problem, lambda: read_slice(path, recording_slice))


def read_sized(path: Path, form: Format, dimensions: Dimensions) -> Problem:
    """Read a file of a format, with sizes for its open dimensions."""
    read = form.read_sized
    if read is None:
        sized = [other.name for other in formats() if other.read_sized is not None]
        raise InstanceError(
            f"{path}: --dimension: a file with open dimensions is needed "
            f"({', '.join(sized) or 'no known format has any'}), found {form.name}"
        )
    return _answer(path, form, Problem, lambda: read(path, dimensions))


def _recorded_requests(path: Path) -> RequestSequence | None:
    form = format_of(path)
    read = form.read_requests
    return None if read is None else _answer(path, form, RequestSequence, lambda: read(path))


def _answer(path: Path, form: Format, kind: type[Content], read: Callable[[], object]) -> Content:
    with foreign(f"{path}: the reader {form.name} failed", InstanceError):
        content = read()
        if not isinstance(content, kind):
            raise TypeError(f"a {kind.__name__} is needed, found {type(content).__name__}")
        return content


def formats() -> tuple[Format, ...]:
    """Return every known format, this package's own first."""
    load_formats()
    return tuple(FORMATS.values())


@at_first_use
def load_formats() -> None:
    """Register our format and those of installed packages; warn of a broken one."""
    FORMATS.add(GAPLESS_JSON.name, GAPLESS_JSON)
    for name, loaded in load_group(ENTRY_POINT_GROUP, "file format"):
        try:
            if not isinstance(loaded, Format):
                raise TypeError(f"a planners.files.formats.Format is needed, found {shown(loaded)}")
            "".endswith(loaded.suffixes)  # an error unless they are a tuple of strings
            FORMATS.add(loaded.name, loaded)
        except (TypeError, GaplessError) as error:
            warn_left_out(f"file format {name}", error)


def format_of(path: Path) -> Format:
    """Return the format of a file.

    A format that recognises content and suffix comes before a format that recognises content alone.
    Gapless's JSON takes every file with its suffix, so it comes last among equals.
    """
    head = _head_of(path)
    matching = [form for form in formats() if _recognises(form, path, head)]
    if not matching:
        known = ", ".join(f"{form.name} ({' '.join(form.suffixes)})" for form in formats())
        raise InstanceError(f"{path}: no known format recognises this file; known: {known}")
    return max(matching, key=lambda form: (form.has_suffix(path), form is not GAPLESS_JSON))


def _recognises(form: Format, path: Path, head: bytes) -> bool:
    try:
        with foreign(f"{path}"):
            return bool(form.recognises(path, head))
    except GaplessError as error:
        warn_left_out(f"file format {form.name}", error)
        return False


def _head_of(path: Path) -> bytes:
    with errors_at(path):
        return b"".join(pieces_of(path, HEAD_BYTES))
