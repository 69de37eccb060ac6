"""STAlloc's text trace written from the requests of a trace."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from instances.formats.target_file import refuse_target
from instances.traces.allocation_trace import NO_MODULE, AllocationTrace, Phase
from instances.traces.event_log import (
    ALLOC,
    FREE_COMPLETED,
    EventLog,
    Marks,
    events_of_trace,
)
from planners.files.output_file import write_output

TARGET = "STAlloc text"
LETTER_OF_PHASE = {Phase.FORWARD: "F", Phase.BACKWARD: "B"}


def write_stalloc_text(trace: AllocationTrace, path: Path) -> None:
    """Write the requests of a trace as STAlloc's recorder writes them.

    A free is written where it completed, for only then may the bytes be used again. Blocks that
    were there before the trace are allocated on the first lines, in the set-up. A module without a
    class is called ``NAME->Module``. The beginning of the optimizer, requests of frees, and changes
    of segments have no line and are not written.
    """
    for request in (trace.address == 0).nonzero()[0][:1].tolist():
        refuse_target(TARGET, "requests with addresses", f"none for request {request}")
    for name in trace.module_names:
        if not name or " " in name:
            refuse_target(TARGET, "names of modules without spaces", repr(name))
    log, marks = events_of_trace(trace)
    lines = [
        _request_line(ALLOC, address, size, stream)
        for address, (size, stream) in log.before.items()
    ]
    lines.extend(_lines(log, marks, [_scope(name) for name in trace.module_names]))
    write_output(path, "".join(f"{line}\n" for line in lines).encode())


def _scope(name: str) -> str:
    return name if "->" in name.strip("->") else f"{name}->Module"


def _request_line(kind: int, address: int, size: int, stream: int) -> str:
    handle = f"{stream:#x}" if stream else "0"
    return f"{int(kind == ALLOC)} {address:#x} {size} {handle}"


def _lines(log: EventLog, marks: Marks, scopes: list[str]) -> Iterator[str]:
    scope = _OpenScope(scopes)
    columns = (log.kind, log.address, log.size, log.stream, log.module)
    requests = zip(*(column.tolist() for column in columns), strict=True)
    event = 0
    for begin, letter, lines in _phase_lines(marks):
        for request in islice(requests, begin - event):
            yield from scope.request_lines(*request)
        event = begin
        yield from scope.enter(NO_MODULE)
        yield from lines
        scope.letter = letter or scope.letter
    for request in requests:
        yield from scope.request_lines(*request)
    yield from scope.enter(NO_MODULE)
    if len(marks.event):
        yield "Iteration Index : end"


def _phase_lines(marks: Marks) -> Iterator[tuple[int, str | None, list[str]]]:
    """Return for each mark its event, the letter of its phase, and the lines that tell of it."""
    previous = None
    for event, phase, iteration in zip(
        map(int, marks.event), map(Phase, marks.phase), map(int, marks.iteration), strict=True
    ):
        lines = [] if iteration == previous else [f"Iteration Index : {iteration}"]
        letter = LETTER_OF_PHASE.get(phase)
        if letter is not None:
            lines.append(f"micro-batch : {letter}")
        previous = iteration
        yield event, letter, lines


class _OpenScope:
    """The module whose lines surround the requests now."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.module = NO_MODULE
        self.letter = LETTER_OF_PHASE[Phase.FORWARD]

    def request_lines(
        self, kind: int, address: int, size: int, stream: int, module: int
    ) -> Iterator[str]:
        if kind in (ALLOC, FREE_COMPLETED):
            yield from self.enter(module)
            yield _request_line(kind, address, size, stream)

    def enter(self, module: int) -> Iterator[str]:
        if module == self.module:
            return
        if self.module != NO_MODULE:
            yield f"{self.names[self.module]} Layer : {self.letter}-end"
        if module != NO_MODULE:
            yield f"{self.names[module]} Layer : {self.letter}-start"
        self.module = module
