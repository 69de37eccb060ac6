"""Runs of planners on instances: an answer is judged, and nothing else of it is believed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import msgspec

from evaluation.study.record import OffsetsRecord, RunStatus
from evaluation.study.run_kind import InstanceRuns, Named, in_registry
from evaluation.study.run_task import (
    Cost,
    RunTask,
    in_a_process,
    measured,
    status_of,
    with_cost,
)
from evaluation.study.sent_instance import SentInstance, known_of
from planners.judged_run import run
from planners.model.budget import Budget
from planners.model.findings import Findings
from planners.model.plan import Status
from planners.model.problem import Problem
from planners.processes.isolated_planner import MOST_HEADER_BYTES, packed, unpacked
from planners.processes.isolated_process import Ended
from planners.processes.planner_answer import OUT_OF_MEMORY, answer_of, take_in
from planners.registry import ChosenPlanner, choose, choose_one

# Planned before what is measured, so that no run pays for imports.
TINY = ([1, 2], [0, 0], [1, 1])
TINY_BUDGET = Budget(time_limit_seconds=1.0)


class OffsetsRuns(InstanceRuns[OffsetsRecord]):
    """A planner on an instance."""

    name = "offsets"
    record = OffsetsRecord
    in_grid = "planners"
    prefix = ""
    asks_device = False

    def choose(self, text: str) -> Sequence[Named]:
        return in_registry(choose, text)

    def carry_out(self, task: RunTask, moment: datetime) -> OffsetsRecord:
        assert isinstance(task.instance, SentInstance)
        problem, bounds = known_of(task.instance, task.bounds_seconds)
        chosen = choose_one(task.label)
        process = _PlannerProcess(task, task.instance, chosen)
        # The judge, and all that comes before it, is that of every run; the call alone is another.
        info = replace(chosen.info, build=lambda **_parameters: process)
        result = run(problem, ChosenPlanner(info, chosen.parameters), task.budget, bounds)
        status, reason = RunStatus(result.status.value), result.reason
        if process.ended is not None:
            status, reason = status_of(process.ended, task.limits)
        elif status is RunStatus.NO_PLAN_FOUND and reason.startswith(OUT_OF_MEMORY):
            status = RunStatus.OUT_OF_MEMORY
        record = msgspec.structs.replace(
            self.blank(task, moment, status, reason or None),
            peak=None if status is RunStatus.INVALID else result.peak,
            lower_bound=result.lower_bound if result.certificate else None,
            certificate=result.certificate or None,
            bounds={bound.name: bound.bytes for bound in bounds},
            incumbents=process.incumbents,
            statistics=dict(result.statistics),
        )
        return with_cost(record, process.cost)


class _PlannerProcess:
    """A planner that runs in a process of its own, and what became of that."""

    def __init__(self, task: RunTask, instance: SentInstance, chosen: ChosenPlanner) -> None:
        self._task, self._instance, self._chosen = task, instance, chosen
        self.cost: Cost | None = None
        self.ended: Ended | None = None
        self.incumbents: tuple[tuple[float, int], ...] = ()

    def __call__(self, problem: Problem, _budget: Budget) -> Findings:
        sent = in_a_process(
            self._task.limits, MOST_HEADER_BYTES + 8 * problem.tensor_count, self._answer
        )
        if isinstance(sent, Ended):
            self.ended = sent
            return Findings(reason=sent.how)
        self.cost, answer = sent
        try:
            found = take_in(problem, unpacked(answer))
            self.incumbents = tuple(found.incumbents)
            return found
        except Exception:
            return Findings(reason="its process sent what is no answer", claimed=Status.INVALID)

    def _answer(self) -> tuple[Cost, bytes]:
        problem = self._instance.unpacked()
        answer_of(self._chosen, Problem(*TINY), TINY_BUDGET.started())
        budget = self._task.budget
        cost, found = measured(lambda: answer_of(self._chosen, problem, budget.started()))
        return cost, packed(found)
