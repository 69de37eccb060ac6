"""From a model's name, or a file of one's own, to the trace of a process that trains it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gpu_runtime.fitting.answers_together import Begin, answers_together
from gpu_runtime.fitting.sharded_states import StateLayout
from instances.extract.models import find_model
from instances.extract.models.model_registry import register_own_models
from instances.extract.models.required_packages import require_packages
from instances.extract.own.own_function import is_own
from instances.extract.record.own_extraction import open_own, trace_own
from instances.extract.record.ranks.parallel_model import parse_parallel
from instances.extract.record.ranks.rank import Rank
from instances.extract.record.recording import SHAPE, record
from instances.extract.record.trace_settings import TraceSettings
from instances.extract.step_settings import COUNTS
from instances.formats.recorded_trace import read_recorded_trace_file, write_recorded_trace
from instances.traces.allocation_trace import NOTES, AllocationTrace
from planners.errors import InstanceError, near_names
from planners.model.problem import Scalar
from planners.processes.isolated_process import answer_apart
from planners.text.plain_text import shown
from planners.text.progress_line import show_progress

# The word for the number of processes among the values that change.
RANKS = "ranks"
# Parameters of a user's function that a remedy changes, and the types of their values.
REMEDIED: dict[str, type] = {"batch": int, "checkpointing": bool}
# Settings of a model that are whole numbers.
VARIED = tuple(option for option in SHAPE if option in COUNTS)
Changes = Mapping[str, int]
# The types of a child process's answer, beside the trace.
_ANSWER = {"label": str, "origin": dict, "values": list, "changeable": dict}


@dataclass(frozen=True)
class Traced:
    """A trace, and its name in its program."""

    label: str
    trace: AllocationTrace
    # The settings that make the trace again.
    origin: Mapping[str, Scalar] = field(default_factory=dict)
    # Values of the parameters that were asked for.
    values: Sequence[int] = ()
    # The parameters that a remedy may change, by their values.
    changeable: Mapping[str, int] = field(default_factory=dict)
    # True if files of a trainer say where its states are.
    is_laid_out: bool = False


@dataclass(frozen=True)
class AskedProgram:
    """A program as a user names it; it is opened anew for each trace."""

    # A model, its configuration file, or a file of one's own.
    name: str
    settings: TraceSettings = field(default_factory=TraceSettings)
    # Settings of a model.
    shape: Mapping[str, Any] = field(default_factory=dict)
    # Arguments of a function of one's own, and the words behind its file.
    arguments: Sequence[str] = ()
    words: Sequence[str] = ()
    # Files that register models.
    models: Sequence[Path] = ()
    ranks: int = 1
    # The kinds of parallelism to add, as :func:`parse_parallel` reads them.
    parallel: str | None = None
    # The number of times its even share of tokens that an expert gets.
    imbalance: float = 1.0
    # The layout and the lines of the answer that files of trainers give; none without such files.
    layout: StateLayout | None = None
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        self._kinds(self.ranks)

    @property
    def is_distributed(self) -> bool:
        return self.ranks > 1 or self.parallel is not None

    @property
    def can_change_ranks(self) -> bool:
        return self.is_distributed and "=" not in (self.parallel or "")

    def trace(self, changes: Changes, vary: Sequence[str] = (), number: int = 0) -> list[Traced]:
        """Trace a process with changed values, and the program's own values of others.

        With it the processes are traced to which it sends, and from which it receives.
        """
        changes = dict(changes)
        # A function that is not distributed may have a parameter of this name.
        ranks = changes.pop(RANKS, self.ranks) if self.is_distributed else self.ranks
        which = f", rank {number} of {ranks}" if ranks > 1 else ""
        show_progress(f"{with_values(self.name, changes)}{which}: tracing")
        alone = Rank(number, ranks, self._kinds(ranks), self.imbalance)
        if not (is_own(self.name) or self.models):
            return [self._as_laid_out(self._traced(alone, changes, vary))]
        require_packages()  # imported here, for all forked processes
        with TemporaryDirectory(prefix="gapless-fit-") as name:
            folder = Path(name)

            def trace_to_file(number: int, begin: Begin) -> dict[str, Any]:
                rank = replace(alone, number=number, messages=folder / "messages", begin=begin)
                traced = self._traced(rank, changes, vary)
                write_recorded_trace(traced.trace, folder / f"{number}.npz")
                return {name: getattr(traced, name) for name in _ANSWER}

            if ranks > 1:
                said = answers_together(self.name, number, trace_to_file, _ANSWER)
            else:
                trace = partial(trace_to_file, number, alone.begin)
                said = {number: answer_apart(self.name, trace, _ANSWER)}
            files = {folder / f"{number}.npz": answer for number, answer in said.items()}
            return [self._checked(answer, file, len(vary)) for file, answer in files.items()]

    def _checked(self, said: dict[str, Any], file: Path, varied: int) -> Traced:
        is_valid = [type(value) for value in said["values"]] == [int] * varied
        if not (is_valid and all(isinstance(one, int) for one in said["changeable"].values())):
            raise InstanceError(f"{self.name}: its process sent no valid answer")
        return Traced(**said, trace=read_recorded_trace_file(file))

    def _as_laid_out(self, traced: Traced) -> Traced:
        """Return a trace with its states where the files of a trainer have them."""
        trace, lines = traced.trace, list(self.notes)
        if self.layout is not None:
            trace, more = self.layout.of(trace)
            lines += more
        notes = "\n".join([*str(traced.origin.get(NOTES, "")).splitlines(), *lines])
        return replace(
            traced,
            trace=trace,
            origin={**traced.origin, **({NOTES: notes} if notes else {})},
            is_laid_out=self.layout is not None,
        )

    def _kinds(self, ranks: int) -> dict[str, int]:
        return {} if self.parallel is None else parse_parallel(self.parallel, ranks)

    def _traced(self, one: Rank, changes: Changes, vary: Sequence[str]) -> Traced:
        register_own_models(self.models)
        trace = self._trace_own if is_own(self.name) else self._trace_model
        return trace(one if one.ranks > 1 else None, changes, vary)

    def _trace_model(self, rank: Rank | None, changes: Changes, vary: Sequence[str]) -> Traced:
        model = find_model(self.name)
        trace = record(self.name, self.settings, rank=rank, **{**self.shape, **changes})
        settings = model.settings(**self.shape, precision=self.settings.weights_precision)
        changeable = {"batch": settings.batch}
        if model.recomputed:
            changeable["checkpointing"] = settings.checkpointing
            changeable["selective"] = bool(settings.selective)
        for parameter in vary:
            if parameter not in VARIED:
                raise InstanceError(
                    f"--vary: {self.name} has no setting {parameter!r} that is a whole number; "
                    f"{near_names(parameter, VARIED)}"
                )
        values = [_whole_number(name, getattr(settings, name), self.name) for name in vary]
        return Traced(with_values(model.name, self.shape), trace, trace.origin, values, changeable)

    def _trace_own(self, rank: Rank | None, changes: Changes, vary: Sequence[str]) -> Traced:
        if rank is not None:
            os.environ.update(rank.variables)  # those of the process of the user's file
        function = open_own(self.name, self.arguments, show_progress, self.words)
        trace = trace_own(function.with_arguments(changes), self.settings.steps, rank=rank)
        # The user's file has run now, and knows its parameters.
        where = f"{function.where}, parameter"
        values = [_whole_number(name, function.value_of(name), where) for name in vary]
        changeable: dict[str, int] = {}
        for parameter, kind in REMEDIED.items():
            with suppress(InstanceError):  # the function has no such parameter
                value = function.value_of(parameter)
                if type(value) is kind and isinstance(value, int):
                    changeable[parameter] = value
        label = with_values(function.label, function.arguments)
        return Traced(label, trace, trace.origin, values, changeable)


def with_values(name: str, values: Mapping[str, object]) -> str:
    return " ".join([name, *(f"{parameter}={value}" for parameter, value in values.items())])


def _whole_number(parameter: str, value: object, where: str) -> int:
    if type(value) is not int or value < 1:
        raise InstanceError(
            f"--vary: {where} {parameter}: a whole number from 1 on is needed to begin with, "
            f"found {shown(value)}"
        )
    return value
