"""The trace of a program in a process of its own, which a user's code may end or confuse."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gpu_runtime.fitting.traced_program import TracedProgram
from instances.formats.recorded_trace import read_recorded_trace_file, write_recorded_trace
from instances.traces.allocation_trace import AllocationTrace
from planners.model.problem import Scalar
from planners.processes.checked_answer import answer_apart

# What a process says beside the trace.
_ANSWER = {"label": str, "origin": dict, "value": int | None}


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

    The process hands over the trace in a file, which is checked like any other.
    """
    with TemporaryDirectory(prefix="gapless-fit-") as folder:
        path = Path(folder) / "trace.npz"

        def traced_to_file() -> dict[str, Any]:
            traced = trace_program(opened(), changes, vary)
            write_recorded_trace(traced.trace, path)
            return {"label": traced.label, "origin": dict(traced.origin), "value": traced.value}

        said = answer_apart(name, traced_to_file, _ANSWER)
        return Traced(**said, trace=read_recorded_trace_file(path))
