"""Formats whose files hold a trace: read whole, or a slice of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from instances.traces.allocation_trace import AllocationTrace
from instances.traces.trace_problem import slice_problem
from instances.traces.trace_requests import requests_of_trace
from planners.errors import errors_at
from planners.files.formats import WHOLE, Format
from planners.files.recording_slice import RecordingSlice
from planners.model.problem import Problem
from planners.model.request_sequence import RequestSequence


def trace_format(
    name: str,
    suffixes: tuple[str, ...],
    recognises: Callable[[Path, bytes], bool],
    read_trace: Callable[[Path], AllocationTrace],
) -> Format:
    """Return the format of files that a function reads as traces; a step is an event."""
    read = partial(_read_slice, read_trace)
    return Format(name, suffixes, recognises, read, read, partial(_read_requests, read_trace))


def _read_slice(
    read_trace: Callable[[Path], AllocationTrace],
    path: Path,
    recording_slice: RecordingSlice = WHOLE,
) -> Problem:
    trace = read_trace(path)
    with errors_at(path):
        return slice_problem(trace, recording_slice)


def _read_requests(read_trace: Callable[[Path], AllocationTrace], path: Path) -> RequestSequence:
    trace = read_trace(path)
    with errors_at(path):
        return requests_of_trace(trace)
