"""Programs that are traced again with other values: a registered model, or a user's step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from instances.extract.models import find_model
from instances.extract.own.own_function import OwnFunction
from instances.extract.record.own_extraction import trace_own
from instances.extract.record.ranks.rank import Rank
from instances.extract.record.recording import SHAPE, record
from instances.extract.record.trace_settings import TraceSettings
from instances.extract.step_settings import COUNTS, StepSettings
from instances.formats.recorded_trace import read_recorded_trace_file, write_recorded_trace
from instances.traces.allocation_trace import AllocationTrace
from planners.errors import InstanceError, near_names
from planners.model.problem import Scalar
from planners.processes.isolated_process import answer_apart
from planners.text.plain_text import shown

# Parameters of a user's function that a remedy changes, and the types of their values.
REMEDIED: dict[str, type] = {"batch": int, "checkpointing": bool}
# Settings of a model that are whole numbers.
VARIED = tuple(option for option in SHAPE if option in COUNTS)


class TracedProgram(Protocol):
    """A training program whose requests can be traced for any value of its parameters."""

    @property
    def label(self) -> str: ...

    @property
    def changeable(self) -> Mapping[str, int]: ...

    def value_of(self, parameter: str) -> int: ...

    def trace(self, changes: Mapping[str, int]) -> AllocationTrace: ...


@dataclass(frozen=True)
class RegisteredProgram:
    name: str
    settings: TraceSettings
    shape: Mapping[str, Any]
    # The traced process; None if not distributed.
    rank: Rank | None = None

    @property
    def label(self) -> str:
        return _with_values(find_model(self.name).name, self.shape)

    @property
    def changeable(self) -> Mapping[str, int]:
        model, shape = find_model(self.name), self._settings
        recomputes = {"checkpointing": shape.checkpointing, "selective": bool(shape.selective)}
        return {"batch": shape.batch, **(recomputes if model.recomputed else {})}

    @property
    def _settings(self) -> StepSettings:
        precision = self.settings.weights_precision
        return find_model(self.name).settings(**self.shape, precision=precision)

    def value_of(self, parameter: str) -> int:
        """Return the value of a setting; ``InstanceError`` if the model has none of this name."""
        if parameter not in VARIED:
            raise InstanceError(
                f"--vary: {self.name} has no setting {parameter!r} that is a whole number; "
                f"{near_names(parameter, VARIED)}"
            )
        return _whole_number(parameter, getattr(self._settings, parameter), self.name)

    def trace(self, changes: Mapping[str, int]) -> AllocationTrace:
        return record(self.name, self.settings, rank=self.rank, **{**self.shape, **changes})


@dataclass(frozen=True)
class OwnProgram:
    function: OwnFunction
    steps: int
    # The process of a distributed program that is traced; None of a program that is alone.
    rank: Rank | None = None

    @property
    def label(self) -> str:
        return _with_values(self.function.label, self.function.arguments)

    @property
    def changeable(self) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for parameter, kind in REMEDIED.items():
            with suppress(InstanceError):  # the function has no such parameter
                value = self.function.value_of(parameter)
                if type(value) is kind and isinstance(value, int):
                    found[parameter] = value
        return found

    def value_of(self, parameter: str) -> int:
        """Return an argument of the function; ``InstanceError`` if it has none of this name."""
        return _whole_number(
            parameter, self.function.value_of(parameter), f"{self.function.where}, parameter"
        )

    def trace(self, changes: Mapping[str, int]) -> AllocationTrace:
        return trace_own(self.function.with_arguments(changes), self.steps, rank=self.rank)


def _with_values(name: str, values: Mapping[str, object]) -> str:
    return " ".join([name, *(f"{parameter}={value}" for parameter, value in values.items())])


def _whole_number(parameter: str, value: object, where: str) -> int:
    if type(value) is not int or value < 1:
        raise InstanceError(
            f"--vary: {where} {parameter}: a whole number from 1 on is needed to begin with, "
            f"found {shown(value)}"
        )
    return value


# The types of a child process's answer, beside the trace.
_ANSWER = {"label": str, "origin": dict, "values": list, "changeable": dict}


@dataclass(frozen=True)
class Traced:
    """A trace, and its name in its program."""

    label: str
    # The settings that make the trace again.
    origin: Mapping[str, Scalar]
    # Values of the parameters that were asked for.
    values: list[int]
    trace: AllocationTrace
    # The parameters that a remedy may change, by their values.
    changeable: Mapping[str, int] = field(default_factory=dict)


def trace_program(
    program: TracedProgram, changes: Mapping[str, int], vary: Sequence[str]
) -> Traced:
    """Trace a program with other values, and ask for its own values of some parameters."""
    trace = program.trace(changes)
    # A user's file runs while it is traced.
    values = [program.value_of(parameter) for parameter in vary]
    return Traced(program.label, trace.origin, values, trace, program.changeable)


def trace_apart(
    name: str, opened: Callable[[], TracedProgram], changes: Mapping[str, int], vary: Sequence[str]
) -> Traced:
    """Open and trace a program as :func:`trace_program` does, in a process of its own.

    The process hands over the trace in a file, which is checked like any other.
    """
    with TemporaryDirectory(prefix="gapless-fit-") as folder:
        path = Path(folder) / "trace.npz"

        def traced_to_file() -> dict[str, Any]:
            traced = trace_program(opened(), changes, vary)
            write_recorded_trace(traced.trace, path)
            return {
                "label": traced.label,
                "origin": dict(traced.origin),
                "values": traced.values,
                "changeable": dict(traced.changeable),
            }

        said = answer_apart(name, traced_to_file, _ANSWER)
        is_valid = [type(value) for value in said["values"]] == [int] * len(vary)
        if not (is_valid and all(isinstance(one, int) for one in said["changeable"].values())):
            raise InstanceError(f"{name}: its process sent no valid answer")
        return Traced(**said, trace=read_recorded_trace_file(path))
