"""The trace of a program in a process of its own, which a user's code may end or confuse."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gpu_runtime.fitting.traced_program import TracedProgram
from instances.formats.recorded_trace import read_recorded_trace_file, write_recorded_trace
from instances.traces.allocation_trace import AllocationTrace
from planners.command_line import standard_output
from planners.errors import GaplessError, InstanceError
from planners.model.problem import Scalar
from planners.processes.isolated_process import Ended, call_isolated
from planners.text.plain_text import describe_error, shown

# Of all but the trace: names, and where it comes from.
MOST_HEADER_BYTES = 1 << 20


@dataclass(frozen=True)
class Traced:
    """What a program said of itself, and its trace."""

    label: str
    # How the trace is made again.
    origin: Mapping[str, Scalar]
    # Value of the parameter that was asked for; None where none was.
    value: int | None
    trace: AllocationTrace


def trace_program(program: TracedProgram, changes: Mapping[str, int], vary: str | None) -> Traced:
    """Trace a program with other values, after it has said its own value of a parameter."""
    value = None if vary is None else program.value_of(vary)
    trace = program.trace(changes)
    return Traced(program.label, trace.origin, value, trace)


def trace_apart(
    name: str, opened: Callable[[], TracedProgram], changes: Mapping[str, int], vary: str | None
) -> Traced:
    """Open and trace a program as :func:`trace_program` does, in a process of its own.

    Note: a user's file may end its process, close or write to any descriptor, fork, or replace
    what Python brings. So the process says at its end that it answers, over a pipe of its own,
    with the trace in a file that is checked like any other; whatever else happens is an error.
    """
    with TemporaryDirectory(prefix="gapless-fit-") as folder:
        path = Path(folder) / "trace.npz"

        def in_the_child() -> bytes:
            standard_output.leave_to_the_parent()
            try:
                traced = trace_program(opened(), changes, vary)
                write_recorded_trace(traced.trace, path)
            except GaplessError as error:
                return json.dumps({"error": str(error)}).encode()
            except Exception as error:
                return json.dumps({"error": f"{name}: {describe_error(error)}"}).encode()
            return json.dumps(
                {"label": traced.label, "origin": dict(traced.origin), "value": traced.value}
            ).encode()

        sent = call_isolated(in_the_child, most_bytes=MOST_HEADER_BYTES)
        if isinstance(sent, Ended):
            raise InstanceError(f"{name}: its process {sent.how}")
        said = _checked(sent, name)
        if "error" in said:
            raise InstanceError(said["error"])
        return Traced(**said, trace=read_recorded_trace_file(path))


def _checked(sent: bytes, name: str) -> dict[str, Any]:
    """Return what the process said, an error or all of an answer but its trace."""
    try:
        said = json.loads(sent)
    except ValueError:
        said = None
    kinds = {"label": str, "origin": dict, "value": int | None}
    if isinstance(said, dict) and said.keys() == {"error"}:
        kinds = {"error": str}
    if (
        not isinstance(said, dict)
        or said.keys() != kinds.keys()
        or not all(isinstance(said[key], kind) for key, kind in kinds.items())
    ):
        raise InstanceError(f"{name}: its process sent what is no answer, found {shown(sent)}")
    return said
