"""Runs of a budget planner: a training step kept within a part of its peak."""

from __future__ import annotations

import re
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
_ASKED = re.compile(
    r"(?P<names>[^:]*)"
    r"(?P<label>(?::(?:limit=(?P<limit>\d*\.?\d+(?:e-\d+)?)|offload=(?P<offload>true|false)))*)"
)


class BudgetRuns(InstanceRuns[BudgetRecord]):
    """A budget planner on an instance, at a limit that is a part of the peak of live bytes."""

    name = "budget"
    record = BudgetRecord

    def choose(self, text: str) -> Sequence[Named]:
        found = _ASKED.fullmatch(text)
        if found is None or not 0 < float(found["limit"] or 1) <= 1:
            raise GaplessError(
                f"field budget: limit=PART, with a part of the peak above 0 and at most 1, or "
                f"offload=true is needed, found {shown(text)}"
            )
        limit, offload = float(found["limit"] or 1), found["offload"] == "true"
        return [
            Named(planner.name, planner.name + found["label"], {"limit": limit, "offload": offload})
            for planner in choose_planners(found["names"])
        ]

    def carry_out(self, task: RunTask, moment: datetime) -> BudgetRecord:
        assert isinstance(task.instance, SentInstance)
        asked = task.named.parameters
        share, may_send = float(asked["limit"]), bool(asked["offload"])
        try:
            step, limit, bound = _bounded(task.instance, share, may_send, task.bounds_seconds)
        except InstanceError as error:
            return self.blank(task, moment, RunStatus.UNSUPPORTED, str(error))
        (planner,) = choose_planners(task.named.planner)

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


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
