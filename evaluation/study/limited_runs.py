"""Runs of a training step within a limit of memory, on a GPU or as a check on the CPU."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from evaluation.study.record import LimitedRecord, RunStatus
from evaluation.study.run_task import (
    Found,
    Named,
    RunKind,
    RunTask,
    measured_apart,
)
from evaluation.study.sent_instance import Training
from planners.errors import GaplessError, InstanceError
from planners.model.online_result import OnlineDevice
from planners.text.plain_text import shown

WITHIN, EVERY_BLOCK = "within", "every-block"
_WAY = re.compile(
    rf"(?P<way>as-it-is|{EVERY_BLOCK}|{WITHIN}:limit=(?P<limit>0?\.\d*[1-9]\d*))"
    r"(?::memory=(?P<memory>planned))?"
)


class LimitedRuns(RunKind[LimitedRecord]):
    """A step of a model as it is, within a limit, or with every block computed again."""

    name = "limited"
    record = LimitedRecord
    asks_device = True
    names_device = True
    runs_on = Training

    def choose(self, text: str) -> Sequence[Named]:
        found = _WAY.fullmatch(text)
        if found is None:
            raise GaplessError(
                f"field limited: as-it-is, {EVERY_BLOCK} or {WITHIN}:limit=PART is needed, with a "
                f"part below 1 of the peak beyond the gradients, and behind it :memory=planned or "
                f"nothing, found {shown(text)}"
            )
        limit = {} if found["limit"] is None else {"limit": float(found["limit"])}
        memory = found["memory"] or "pytorch"
        return [Named(found["way"].partition(":")[0], text, {**limit, "memory": memory})]

    def carry_out(self, task: RunTask, moment: datetime) -> LimitedRecord:
        return self.recorded(task, moment, measured_apart(task.limits, lambda: _ran(task)))


def _ran(task: RunTask) -> Found:
    # Imported here because it needs PyTorch.
    from evaluation.measuring.limited_step import AskedStep, measure

    share = task.named.parameters.get("limit")
    asked = AskedStep(
        training=task.instance.name,
        share=None if share is None else float(share),
        every_block=task.named.planner == EVERY_BLOCK,
        is_planned=task.named.parameters["memory"] == "planned",
        device="cuda" if task.device is OnlineDevice.CUDA else "cpu",
        seed=task.seed,
        planner_seconds=task.limits.budget_seconds or task.limits.seconds,
    )
    try:
        peak, figures = measure(asked)
    except InstanceError as error:
        return {"status": RunStatus.UNSUPPORTED, "reason": str(error)}
    except GaplessError as error:
        return {"status": RunStatus.NO_PLAN_FOUND, "reason": str(error)}
    return {"status": RunStatus.FEASIBLE, "peak": peak, "statistics": figures}
