"""Every kind of run; a new kind needs a class, one name here and one in `record`."""

from __future__ import annotations

from contextlib import ExitStack
from threading import Lock
from typing import Any

from evaluation.measuring.cores import a_core_of_its_own
from evaluation.study.budget_runs import BudgetRuns
from evaluation.study.fit_runs import FitRuns
from evaluation.study.instance_runs import OffsetsRuns, OnlineRuns
from evaluation.study.limited_runs import LimitedRuns
from evaluation.study.plugins import load_plugins
from evaluation.study.record import AnyRecord, RunStatus
from evaluation.study.run_task import RunKind, RunTask, now
from evaluation.study.surroundings import this_machine

KINDS: dict[str, RunKind[Any]] = {
    kind.name: kind
    for kind in (OffsetsRuns(), OnlineRuns(), BudgetRuns(), FitRuns(), LimitedRuns())
}


# A fork while another thread imports leaves the child a lock that nobody opens. So the first run of
# a kind, which imports what the others need, is alone in its process.
_first_run = Lock()
_kinds_that_ran: set[str] = set()


def carry_out(task: RunTask) -> str:
    """Make a run in a process of its own, and return its record as a line."""
    # The first call counts all cores and is cached; it comes before the run is pinned to one core.
    this_machine()
    with ExitStack() as stack:
        if task.kind not in _kinds_that_ran:
            stack.enter_context(_first_run)
            stack.callback(_kinds_that_ran.add, task.kind)
        if task.timed:
            stack.enter_context(a_core_of_its_own())
        moment = now()
        load_plugins(task.plugins)
        return str(KINDS[task.kind].carry_out(task, moment).to_json())


def crashed(task: RunTask, reason: str) -> AnyRecord:
    """Return the record of a run whose worker died."""
    record: AnyRecord = KINDS[task.kind].blank(task, now(), RunStatus.CRASHED, reason)
    return record
