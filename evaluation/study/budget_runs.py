"""Runs of a budget planner: a training step kept within a part of its peak."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache

import numpy as np

from evaluation.study.record import BudgetRecord, RunStatus
from evaluation.study.run_task import (
    Cost,
    Found,
    InstanceRuns,
    Named,
    RunTask,
    found_in_a_process,
    measured,
)
from evaluation.study.sent_instance import SentInstance
from planners.errors import GaplessError, InstanceError
from planners.model.budget import Budget
from planners.recompute import (
    LimitQuestion,
    RepeatableStep,
    StagedBound,
    choose_planners,
    device_rates,
    run_under_limit,
    staged_bound,
)
from planners.text.plain_text import shown

DEVICE = "h100"


class BudgetRuns(InstanceRuns[BudgetRecord]):
    """A budget planner on an instance, at a limit that is a part of the peak of live bytes."""

    name = "budget"
    record = BudgetRecord

    def choose(self, text: str) -> Sequence[Named]:
        names, *settings = text.split(":")
        parameters = {"limit": 1.0, "offload": False}
        for setting in settings:
            key, _, value = setting.partition("=")
            if key == "offload" and value in ("true", "false"):
                parameters[key] = value == "true"
            elif key == "limit" and _is_share(value):
                parameters[key] = float(value)
            else:
                raise GaplessError(
                    f"field budget: limit=PART, with a part of the peak above 0 and at most 1, or "
                    f"offload=true is needed, found {shown(setting)}"
                )
        label = "".join(f":{setting}" for setting in settings)
        return [
            Named(planner.name, planner.name + label, parameters)
            for planner in choose_planners(names)
        ]

    def carry_out(self, task: RunTask, moment: datetime) -> BudgetRecord:
        assert isinstance(task.instance, SentInstance)
        share, may_send = float(task.parameters["limit"]), bool(task.parameters["offload"])
        try:
            step, limit, bound = _bounded(task.instance, share, may_send, task.bounds_seconds)
        except InstanceError as error:
            return self.blank(task, moment, RunStatus.UNSUPPORTED, str(error))
        (planner,) = choose_planners(task.planner)

        def answer() -> tuple[Cost, Found]:
            question = LimitQuestion(step, limit, task.budget.started(), bound)
            cost, result = measured(lambda: run_under_limit(question, planner))
            figures = {
                **result.statistics,
                "limit": limit,
                "step_seconds": step.seconds,
                "least_seconds": _finite(result.least_seconds),
                "extra_seconds": _finite(result.extra_seconds),
                "within": None if result.plan is None else result.plan.peak,
            }
            return cost, {
                "status": result.status.value,
                "reason": result.reason or None,
                "certificate": result.certificate,
                "statistics": {key: its for key, its in figures.items() if its is not None},
            }

        return self.recorded(task, moment, found_in_a_process(task.limits, answer))


# The runs of an instance come one after the other, and each limit comes for several planners.
@lru_cache(maxsize=8)
def _bounded(
    instance: SentInstance, share: float, may_send: bool, seconds: float
) -> tuple[RepeatableStep, int, StagedBound]:
    """Return a step, the limit in bytes, and the bound that so many seconds give."""
    step = RepeatableStep(instance.unpacked(), device_rates(DEVICE), may_send=may_send)
    limit = int(share * int(step.live_bytes.max(initial=0)))
    return step, limit, staged_bound(step, limit, Budget(time_limit_seconds=seconds).started())


def _is_share(text: str) -> bool:
    try:
        return 0 < float(text) <= 1
    except ValueError:
        return False


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
