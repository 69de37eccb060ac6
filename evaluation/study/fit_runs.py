"""Runs that find the memory of a training: predicted without a GPU, or measured on one."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec

from evaluation.study.record import FitRecord, RunStatus
from evaluation.study.run_task import (
    Cost,
    Found,
    Named,
    RunKind,
    RunTask,
    found_in_a_process,
    measured,
)
from evaluation.study.sent_instance import Training
from evaluation.study.study import RunLimits
from gpu_runtime.fitting.rank_fit import LIVE
from gpu_runtime.training.run_processes import answer_of
from gpu_runtime.training.run_result import Failure
from gpu_runtime.training.training_run import (
    Allocator,
    Purpose,
    RegisteredModel,
    TrainingRun,
    model_run,
)
from planners.errors import GaplessError, near_names
from planners.model.online_result import OnlineDevice
from planners.processes.child_process import run_to_end
from planners.processes.isolated_process import Ended

# The allocators of a training, by their names in `gpu_runtime.fit`.
ALLOCATORS = {
    "pytorch-caching": Allocator.DEFAULT,
    "pytorch-expandable": Allocator.EXPANDABLE,
    "planned": Allocator.PLANNED,
}
# Steps of a measured run. A plan serves from the fourth step on; later steps may change the plan.
WARM_UP = 6
STEPS = 4


class FitRuns(RunKind[FitRecord]):
    """The memory of a training: measured if the device is a GPU, else predicted."""

    name = "fit"
    record = FitRecord
    asks_device = True
    names_device = True
    runs_on = Training

    def choose(self, text: str) -> Sequence[Named]:
        if text == "*":
            return [Named(name, name) for name in ALLOCATORS]
        if text not in ALLOCATORS:
            raise GaplessError(
                f"field fit: no allocator is called {text!r}; {near_names(text, ALLOCATORS)}"
            )
        return [Named(text, text)]

    def own_fields(self, task: RunTask) -> dict[str, Any]:
        return {"measured": task.device is OnlineDevice.CUDA}

    def carry_out(self, task: RunTask, moment: datetime) -> FitRecord:
        training, planner = task.instance.name, task.named.planner
        if task.device is OnlineDevice.CUDA:
            sent = found_in_a_process(
                task.limits,
                lambda: measured(lambda: _taken(training, planner, task.seed)),
            )
        else:
            sent = _predicted(training, task.limits)
        if not isinstance(sent, Ended):
            cost, found = sent
            sent = cost, dict(found.get(planner, found))
            if sent[1].pop("ends_all", False):
                raise GaplessError(sent[1]["reason"])
        return self.recorded(task, moment, sent)


@lru_cache(maxsize=2)
def _predicted(training: str, limits: RunLimits) -> tuple[Cost, Found] | Ended:
    """Ask ``gpu_runtime.fit``, which sees no GPU, once for all allocators of a training."""
    return found_in_a_process(limits, lambda: measured(lambda: _asked(training)))


def _asked(training: str) -> Found:
    done = run_to_end(
        [sys.executable, "-m", "gapless_siblings", "gpu_runtime.fit", *training.split(), "--json"],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        reason = said[-1].strip() if said else f"exit code {done.returncode}"
        return {"status": RunStatus.UNSUPPORTED, "reason": reason.removeprefix("error: ")}
    rows = {row["label"]: row["reserved_peak"] for row in json.loads(done.stdout)["allocators"]}
    live = rows.pop(LIVE)
    return {
        name: {"status": RunStatus.FEASIBLE, "peak": peak, "requested": live}
        for name, peak in rows.items()
    }


def _taken(training: str, allocator: str, seed: int, device: str = "cuda") -> Found:
    """Train on the GPU, in a process of the allocator."""
    result = answer_of(run_of(training, ALLOCATORS[allocator], seed, device))
    if isinstance(result, Failure):
        no_memory = result.message.startswith("out of memory")
        status = RunStatus.OUT_OF_MEMORY if no_memory else RunStatus.CRASHED
        return {"status": status, "reason": result.message, "ends_all": result.is_general}
    if result.peaks is None:
        return {"status": RunStatus.UNSUPPORTED, "reason": "its memory was not counted"}
    return {
        "status": RunStatus.FEASIBLE,
        "peak": result.whole_run_reserved,
        "requested": result.peaks.requested,
        "statistics": dict(result.environment),
    }


def run_of(training: str, allocator: Allocator, seed: int = 0, device: str = "cuda") -> TrainingRun:
    """Return the run of a training that is written as on the command line."""
    run = model_run(Purpose.TIME, RegisteredModel.read(training), allocator)
    return msgspec.structs.replace(run, warm_up=WARM_UP, turn_steps=STEPS, seed=seed, device=device)
