"""The text traces of STAlloc's recorder, read and written: a line for each request and mark.

::

    1 0x7f1e41329c00 1048576 0                        allocated, at an address, bytes, stream
    Iteration Index : 0                               lines before it were the set-up
    micro-batch : F                                   a forward pass begins; B: a backward pass
    decoder.layers.3.mlp->MoELayer Layer : F-start    a module begins, and later ends
    0 0x7f1e41329c00 1048576 0                        freed
    Iteration Index : end                             lines after it are the end of the run
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from instances.formats.plan_target import refuse_target
from instances.formats.trace_format import trace_format
from instances.traces.allocation_trace import NO_MODULE, AllocationTrace, Phase
from instances.traces.event_log import (
    ALLOC,
    FREE_COMPLETED,
    EventLog,
    Marks,
    events_of_trace,
    trace_of_events,
)
from planners.errors import InstanceError, errors_at
from planners.files.bounded_file import read_bounded_text
from planners.files.file_limits import MAX_TEXT_BYTES
from planners.files.output_file import write_output
from planners.model.columns import INT64_MAX

# W marks weight gradients that are computed separately; they are part of the backward pass.
PHASE_OF_LETTER = {"F": Phase.FORWARD, "B": Phase.BACKWARD, "W": Phase.BACKWARD}

_LINE = re.compile(r".*\n?")
_REQUEST = re.compile(r"([01]) (0x[0-9a-fA-F]{1,16}|0) ([0-9]{1,19}) (0x[0-9a-fA-F]{1,16}|0)")
_ITERATION = re.compile(r"Iteration Index : ([0-9]{1,19}|end)")
_PHASE = re.compile(r"micro-batch : ([FBW])")
# Atomic groups: backtracking over every "->" of a long line would take the square of its length.
_LAYER = re.compile(r"((?>\S+?->)\S++) Layer : ([FBW])-(start|end)")
# The token dispatcher of a mixture of experts is timed within its layer.
_DISPATCHER = re.compile(r"token_\w+(?: preprocess)? ?: [FB]-(?:start|end)")


def read_stalloc_trace(path: Path) -> AllocationTrace:
    """Read the requests of a STAlloc trace, with phases and modules.

    A request belongs to the innermost module that has begun and not ended, by its full name
    (``decoder.layers.3.mlp->MoELayer``). The reader skips the lines of the token dispatcher, all
    lines behind ``Iteration Index : end``, and null addresses. Requests between the line of an
    iteration and its first micro-batch belong to that micro-batch. The recorder does not mark the
    optimizer, so its requests belong to the last micro-batch.

    Source: https://github.com/infinigence/STAlloc, ``Allocator/trace.cpp`` and ``utils``.
    """
    recording = _Recording()
    with errors_at(path):
        text = read_bounded_text(path, MAX_TEXT_BYTES)
        for number, line in enumerate(_LINE.finditer(text), start=1):
            try:
                if recording.take(line[0].strip()):
                    break
            except InstanceError as error:
                raise InstanceError(f"line {number}: {error}") from None
        return recording.trace(path)


def _recognises(path: Path, head: bytes) -> bool:  # noqa: ARG001 - the first line says it
    first = head.decode("utf-8-sig", "replace").partition("\n")[0].strip()
    return any(form.fullmatch(first) for form in (_REQUEST, _ITERATION, _PHASE, _LAYER))


STALLOC_TEXT = trace_format("stalloc-text", (".txt",), _recognises, read_stalloc_trace)


class _Recording:
    """The requests, marks and modules of the lines so far."""

    def __init__(self) -> None:
        # Rows of five numbers, end to end: tuples would take six times the memory.
        self.numbers = array("q")
        self.events = 0
        self.marks: list[tuple[int, int, int, int]] = []
        self.iteration = -1
        self.awaits_phase = False
        self.seen = dict.fromkeys(PHASE_OF_LETTER, 0)
        self.open: list[tuple[str, str]] = []
        # How often each scope is open, so that the end of one needs no search through all.
        self.open_times: Counter[tuple[str, str]] = Counter()
        self.module_of_name: dict[str, int] = {}
        self.module = NO_MODULE

    def take(self, line: str) -> bool:
        """Take one line in; return whether it ends the trace."""
        if match := _REQUEST.fullmatch(line):
            self._request(*match.groups())
        elif match := _LAYER.fullmatch(line):
            self._layer(*match.groups())
        elif match := _PHASE.fullmatch(line):
            self._phase(match[1])
        elif match := _ITERATION.fullmatch(line):
            if match[1] == "end":
                return True
            self._begin_iteration(int(match[1]))
        elif line and not _DISPATCHER.fullmatch(line):
            raise InstanceError(
                "a request '1|0 ADDRESS BYTES STREAM', 'Iteration Index : N', 'micro-batch : F' or "
                f"'NAME->CLASS Layer : F-start' is needed, found {line!r:.60}"
            )
        return False

    def _request(self, allocates: str, address: str, size: str, stream: str) -> None:
        kind = ALLOC if allocates == "1" else FREE_COMPLETED
        numbers = (int(address, 16), int(size), int(stream, 16))
        if max(numbers) > INT64_MAX:
            raise InstanceError(f"numbers up to 2**63 - 1 are needed, found {max(numbers)}")
        if numbers[0]:
            self.numbers.extend((kind, *numbers, self.module))
            self.events += 1

    def _layer(self, name: str, letter: str, edge: str) -> None:
        scope = (name, letter)
        if edge == "start":
            self.open.append(scope)
            self.open_times[scope] += 1
        elif self.open_times[scope]:
            # Hooks of a backward pass may skip an end; a scope that began inside has ended as well.
            ended = None
            while ended != scope:
                ended = self.open.pop()
                self.open_times[ended] -= 1
        else:
            raise InstanceError(f"a module ends after it began, found the end of {name!r:.60}")
        self.module = NO_MODULE
        if self.open:
            innermost = self.open[-1][0]
            self.module = self.module_of_name.setdefault(innermost, len(self.module_of_name))

    def _begin_iteration(self, number: int) -> None:
        if not self.iteration < number <= INT64_MAX:
            raise InstanceError(
                f"iterations ascend, found {number} after {self.iteration}, and stay below 2**63"
            )
        self.iteration = number
        self.seen = dict.fromkeys(PHASE_OF_LETTER, 0)
        # An iteration without a micro-batch is one forward pass.
        self.marks.append((self.events, Phase.FORWARD, 0, number))
        self.awaits_phase = True

    def _phase(self, letter: str) -> None:
        if self.iteration < 0:
            return
        event = self.events
        if self.awaits_phase:
            event = self.marks.pop()[0]
            self.awaits_phase = False
        self.marks.append((event, PHASE_OF_LETTER[letter], self.seen[letter], self.iteration))
        self.seen[letter] += 1

    def trace(self, path: Path) -> AllocationTrace:
        kind, address, size, stream, module = np.array(self.numbers, np.int64).reshape(-1, 5).T
        marks = np.array(self.marks, dtype=np.int64).reshape(-1, 4).T
        return trace_of_events(
            EventLog(kind, address, size, stream, module),
            marks=Marks(*marks),
            module_names=list(self.module_of_name),
            name=path.stem,
            origin={"format": STALLOC_TEXT.name, "file": path.name},
        )


TARGET = "STAlloc text"
LETTER_OF_PHASE = {Phase.FORWARD: "F", Phase.BACKWARD: "B"}


def write_stalloc_text(trace: AllocationTrace, path: Path) -> None:
    """Write the requests of a trace as STAlloc's recorder writes them.

    A free is written where it completed, because only then may the bytes be used again. Blocks from
    before the trace are allocated on the first lines, in the set-up. A module without a class is
    called ``NAME->Module``. The format has no lines for the beginning of the optimizer, requested
    frees and changes of segments; they are not written.
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
    """Yield for each mark its event, the letter of its phase, and its lines."""
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
    """The module whose lines surround the current requests."""

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
