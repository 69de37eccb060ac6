"""Runs several online allocators on the same requests."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from planners.answers.planner_answer import (
    MalformedAnswerError,
    byte_count,
    called,
    figures,
    line_of,
)
from planners.errors import GaplessError
from planners.model.findings import Findings
from planners.model.online_result import OnlineResult, OnlineTerms
from planners.model.plan import Status
from planners.model.request_sequence import RequestSequence
from planners.referee.online import find_online_fault
from planners.registry import ChosenOnline, choose_online
from planners.text.plain_text import one_line, shown, text_of


@dataclass(frozen=True, eq=False)
class OnlineRow:
    """The result of one online allocator on the requests."""

    # Name and parameters, as written on the command line.
    label: str
    # None if the allocator failed.
    result: OnlineResult | None
    # The reason for a failure, an early end, or a result that does not match its name.
    reason: str = ""
    # False if the allocator broke down, or its answer breaks a rule.
    valid: bool = True


@dataclass(frozen=True, eq=False)
class OnlineRun:
    """The results of several online allocators on the same requests."""

    requests: RequestSequence
    terms: OnlineTerms
    # A row for each allocator that ran, in the order in which they were chosen.
    rows: tuple[OnlineRow, ...] = ()
    # Labels of the allocators that an interrupt kept from running to their end.
    left_out: tuple[str, ...] = ()

    @property
    def best(self) -> OnlineRow | None:
        """Among the rows without a reason, the first with the smallest peak of reserved bytes."""
        served = [row for row in self.rows if row.result is not None and not row.reason]
        return min(served, key=_reserved, default=None)

    def is_best(self, row: OnlineRow) -> bool:
        """Return True if a row has no reason, and the smallest peak of reserved bytes of such."""
        best = self.best
        return best is not None and not row.reason and _reserved(row) == _reserved(best)


def run_online(
    requests: RequestSequence,
    chosen: Sequence[ChosenOnline] | str,
    terms: OnlineTerms | None = None,
    *,
    on_start: Callable[[int, str], None] = lambda _index, _label: None,
    is_interrupted: Callable[[], bool] = lambda: False,
) -> OnlineRun:
    """Run online allocators one after the other on the same requests.

    Parameters
    ----------
    requests
        The requests of a recording, a snapshot or an instance, from :func:`planners.read_requests`.
    chosen
        Names or wildcards with parameters, as on the command line of ``gpu_runtime.replay``, or
        objects of the registry.
    terms
        The device and its terms; by default it keeps accounts and has no memory.
    on_start
        Called with the index and the label of each allocator before it runs.
    is_interrupted
        Returns True if no further allocator is to run.

    Returns
    -------
    OnlineRun
        A row for each allocator, with the reason if it failed. After Ctrl-C, those that had ended.

    Raises
    ------
    GaplessError
        No allocator has such a name, or an allocator has no such parameter.
    """
    if isinstance(chosen, str):
        chosen = choose_online(chosen)
    terms = terms or OnlineTerms()
    labels = [allocator.label for allocator in chosen]
    rows: list[OnlineRow] = []
    for index, allocator in enumerate(chosen):
        if is_interrupted():
            break
        try:
            on_start(index, allocator.label)
            rows.append(_run_one(requests, allocator, terms))
        except KeyboardInterrupt:
            break
    return OnlineRun(requests, terms, tuple(rows), tuple(labels[len(rows) :]))


def _run_one(requests: RequestSequence, allocator: ChosenOnline, terms: OnlineTerms) -> OnlineRow:
    def answered() -> OnlineResult | Findings:
        try:
            answer = allocator.info.build(**allocator.parameters)(requests, terms)
        except GaplessError as error:  # it says why it does not serve, and gives no wrong answer
            return Findings(reason=text_of(error))
        return judged_answer(requests, terms, answer)

    result = called(answered)
    if isinstance(result, Findings):
        is_valid = result.claimed is not Status.INVALID
        return OnlineRow(allocator.label, None, result.reason, is_valid)
    row = result.out_of_memory_row
    if row is None:
        return OnlineRow(allocator.label, result, result.not_done)
    reason = f"out of memory at row {row:,} of {requests.row_count:,}"
    return OnlineRow(allocator.label, result, reason)


def judged_answer(requests: RequestSequence, terms: OnlineTerms, answer: object) -> OnlineResult:
    """Return the answer of an allocator with text on one line; raise if it breaks a rule."""
    if not isinstance(answer, OnlineResult):
        found = type(answer).__name__
        raise MalformedAnswerError(f"an online allocator returns an OnlineResult, found {found}")
    row = answer.out_of_memory_row
    if row is not None and byte_count("out_of_memory_row", row) > requests.row_count:
        raise MalformedAnswerError(f"out_of_memory_row: the run has fewer rows, found {shown(row)}")
    live = requests.live_bytes(requests.size)[:row]
    result = replace(
        answer,
        # It follows from the requests alone, so an allocator need not count it.
        requested_peak=int(live.max(initial=0)),
        allocated_peak=byte_count("allocated_peak", answer.allocated_peak),
        reserved_peak=byte_count("reserved_peak", answer.reserved_peak),
        device_calls={one_line(kind): calls for kind, calls in answer.device_calls.items()},
        seconds=_seconds("seconds", answer.seconds),
        last_iteration_seconds=_seconds("last_iteration_seconds", answer.last_iteration_seconds),
        not_done=line_of("not_done", answer.not_done),
        statistics=figures(answer.statistics),
    )
    fault = find_online_fault(requests, live, terms.capacity, result)
    if fault is not None:
        raise MalformedAnswerError(fault)
    return result


def _seconds(what: str, value: object) -> float:
    if isinstance(value, (int, float, np.number)) and 0 <= value < math.inf:
        return float(value)
    raise MalformedAnswerError(f"{what}: seconds from 0 on are needed, found {shown(value)}")


def _reserved(row: OnlineRow) -> int:
    return row.result.reserved_peak if row.result is not None else 0
