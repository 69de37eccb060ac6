"""Parts of a recording as problems: an iteration, its static requests, or more microbatches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from instances.formats.recorded_trace import read_recorded_trace_file
from instances.traces.repeated_steps import repeat_last_microbatch
from planners.dynamic.static_part import static_part
from planners.errors import GaplessError, InstanceError, errors_at
from planners.files.formats import read_with_requests
from planners.files.recording_slice import RecordingSlice, parse_iteration
from planners.model.problem import Problem
from planners.model.request_sequence import RequestSequence


def name_with(name: str, settings: Mapping[str, object]) -> str:
    """Return a name with more settings appended."""
    return ":".join([name, *(f"{key}={value}" for key, value in settings.items())])


def settings_in(name: str) -> tuple[str, Mapping[str, str]]:
    """Return the name of an instance without its settings, and the settings."""
    of_it, *parts = name.split(":")
    settings = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if equals:
            settings[key] = value
        else:
            of_it = f"{of_it}:{part}"
    return of_it, settings


@dataclass(frozen=True)
class RecordingPart:
    """A part of a recording; by default the whole file, which may be of any format."""

    # As on the command line: ``all``, ``last`` or a number.
    iteration: str = "all"
    # True to plan blocks that were allocated before the iteration and outlive it.
    persistent: bool = True
    # True to leave out requests whose size varies from one iteration to the next.
    static: bool = False
    # The number of times that the iteration's last microbatch comes in a row.
    microbatches: int = 1

    def __post_init__(self) -> None:
        try:
            parse_iteration(self.iteration)
        except GaplessError as error:
            raise InstanceError(str(error).replace("--iteration", "field iteration")) from None
        if self.microbatches < 1:
            raise InstanceError(
                f"field microbatches: at least 1 is needed, found {self.microbatches}"
            )
        if self.is_all and replace(self, iteration="last") != _LAST:
            raise InstanceError(
                "fields persistent, static, microbatches: they are of one iteration, and field "
                'iteration is needed, such as "last", found all'
            )

    @property
    def is_all(self) -> bool:
        """True if nothing is left out."""
        return parse_iteration(self.iteration) is None

    def name_of(self, recording: str) -> str:
        """Return the name of this part of a recording."""
        if self.is_all:
            return recording
        parts = [recording, f"iteration={self.iteration}"]
        parts += [] if self.persistent else ["persistent=false"]
        parts += ["static=true"] if self.static else []
        parts += [] if self.microbatches == 1 else [f"microbatches={self.microbatches}"]
        return ":".join(parts)

    def read(self, path: Path) -> tuple[Problem, RequestSequence | None]:
        """Return the problem, and the requests of a recording as a whole."""
        recording_slice = RecordingSlice(parse_iteration(self.iteration), self.persistent)
        if self.microbatches == 1:
            problem, requests = read_with_requests(path, recording_slice)
        else:
            trace = read_recorded_trace_file(path)
            with errors_at(path):
                problem = repeat_last_microbatch(trace, recording_slice, self.microbatches)
            requests = None
        return (static_part(problem).problem if self.static else problem), requests


_LAST = RecordingPart(iteration="last")
