"""Runs that find the memory of a training: predicted without a GPU, or measured on one."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from evaluation.programs.program_list import ALONE, CONFIGURATIONS, FIT_STEPS, PROGRAMS
from evaluation.study.record import FitRecord, RunStatus
from evaluation.study.run_task import (
    Cost,
    Found,
    Named,
    RunKind,
    RunTask,
    measured_apart,
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
from instances.extract.models import MODELS
from planners.errors import GaplessError, near_names
from planners.model.online_result import OnlineDevice
from planners.processes.child_process import run_to_end
from planners.processes.isolated_process import Ended
from planners.text.plain_text import shown

# The allocators of a training, by their names in `gpu_runtime.fit`.
ALLOCATORS = {
    "pytorch-caching": Allocator.DEFAULT,
    "pytorch-expandable": Allocator.EXPANDABLE,
    "planned": Allocator.PLANNED,
}
PYTORCH = "pytorch-caching,pytorch-expandable"
# Other people's, which `evaluation.peers.memory_estimators` asks about a model.
ESTIMATORS = ("accelerate", "activations", "deepspeed-zero2", "torch-mem-tracker")
_ASKED = re.compile(r"(?P<allocator>[^:]*)(?::memory=(?P<mib>[1-9]\d*)MiB)?")


class FitRuns(RunKind[FitRecord]):
    """The memory of a training: measured if the device is a GPU, else predicted."""

    name = "fit"
    record = FitRecord
    asks_device = True
    names_device = True
    runs_on = Training

    def choose(self, text: str) -> Sequence[Named]:
        found = _ASKED.fullmatch(text)
        if found is None:
            raise GaplessError(
                f"field fit: ALLOCATOR or ALLOCATOR:memory=NUMBERMiB is needed, found {shown(text)}"
            )
        name, mib = found["allocator"], found["mib"]
        names = list(ALLOCATORS) if name == "*" else [name]
        known = (*ALLOCATORS, *ESTIMATORS)
        if names[0] not in known:
            raise GaplessError(
                f"field fit: no allocator is called {name!r}; {near_names(name, known)}"
            )
        memory = {} if mib is None else {"memory": int(mib) << 20}
        return [Named(its, its + text.removeprefix(name), memory) for its in names]

    def own_fields(self, task: RunTask) -> dict[str, Any]:
        return {"measured": task.device is OnlineDevice.CUDA}

    def carry_out(self, task: RunTask, moment: datetime) -> FitRecord:
        training, planner = task.instance.name, task.named.planner
        memory = task.named.parameters.get("memory")
        limit = None if memory is None else int(memory)
        if task.device is OnlineDevice.CUDA:
            sent = measured_apart(task.limits, lambda: _taken(training, planner, limit, task.seed))
        elif planner in ESTIMATORS:
            sent = measured_apart(task.limits, lambda: _estimated(training, planner))
        else:
            asked = planner if planner == "planned" else PYTORCH
            sent = _predicted(training, asked, limit, task.limits)
        if not isinstance(sent, Ended):
            cost, found = sent
            sent = cost, dict(found.get(planner, found))
            if sent[1].pop("ends_all", False):
                raise GaplessError(sent[1]["reason"])
        return self.recorded(task, moment, sent)


@lru_cache(maxsize=4)
def _predicted(
    training: str, allocators: str, limit: int | None, limits: RunLimits
) -> tuple[Cost, Found] | Ended:
    """Ask ``gpu_runtime.fit``, which sees no GPU, once for all allocators of a training."""
    return measured_apart(limits, lambda: _asked(training, allocators, limit))


def _asked(training: str, allocators: str, limit: int | None) -> Found:
    within = [] if limit is None else ["--memory", str(limit), "--beside", "0", "--no-remedies"]
    done = run_to_end(
        [sys.executable, "-m", "gapless_siblings", "gpu_runtime.fit", *words_of(training),
         "--json", "--allocators", allocators, *within],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
    )  # fmt: skip
    if not done.stdout:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        reason = said[-1].strip() if said else f"exit code {done.returncode}"
        return {"status": RunStatus.UNSUPPORTED, "reason": reason.removeprefix("error: ")}
    rows = {row["label"]: row for row in json.loads(done.stdout)["allocators"]}
    live = rows.pop(LIVE)["reserved_peak"]
    return {
        name: {
            "status": RunStatus.INFEASIBLE if row["fits"] is False else RunStatus.FEASIBLE,
            "peak": row["reserved_peak"],
            "requested": live,
        }
        for name, row in rows.items()
    }


def _estimated(training: str, estimator: str) -> Found:
    from evaluation.peers.memory_estimators import estimate  # which needs PyTorch

    model = run_of(training, Allocator.DEFAULT).model
    try:
        if model is None:
            raise GaplessError("it takes a model, and this is a script")
        return {"status": RunStatus.FEASIBLE, "peak": estimate(estimator, model)}
    except GaplessError as error:
        return {"status": RunStatus.UNSUPPORTED, "reason": str(error)}


def words_of(training: str) -> list[str]:
    """Return the words of ``gpu_runtime.fit`` for a program, or for a registered model."""
    run = run_of(training, Allocator.DEFAULT)
    if run.model is not None:
        return _model_words(training).split()
    given = {"program": run.program, **({} if run.batch is None else {"batch": run.batch})}
    settings = [f"--set={key}={value}" for key, value in given.items()]
    return [f"{ALONE}:train", *settings, "--steps", str(run.steps)]


def _model_words(training: str) -> str:
    """Return the words of a model; one that is not registered has its configuration here."""
    name, _, options = training.partition(" ")
    file = CONFIGURATIONS / f"{name}.json"
    return f"{file} {options}" if file.exists() else training


def _taken(
    training: str, allocator: str, limit: int | None, seed: int, device: str = "cuda"
) -> Found:
    """Train on the GPU, in a process of the allocator."""
    run = run_of(training, ALLOCATORS[allocator], seed, device)
    result = answer_of(replace(run, memory=limit))
    if isinstance(result, Failure):
        no_memory = result.message.startswith("out of memory")
        status = RunStatus.OUT_OF_MEMORY if no_memory else RunStatus.CRASHED
        return {"status": status, "reason": result.message, "ends_all": result.is_general}
    if result.peaks is None:
        return {"status": RunStatus.UNSUPPORTED, "reason": "its memory was not counted"}
    return {
        "status": RunStatus.FEASIBLE,
        "peak": result.peaks.reserved,
        "requested": result.peaks.requested,
        "statistics": {
            **result.environment,
            "allocated": result.peaks.allocated,
            "driver_bytes": result.device_bytes or 0,
        },
    }


def run_of(training: str, allocator: Allocator, seed: int = 0, device: str = "cuda") -> TrainingRun:
    """Return the run of a program, or of a registered model as on the command line.

    A program of the name of a model is written ``programs/NAME``.
    """
    name, *options = training.split()
    program = PROGRAMS.get(name.removeprefix("programs/"))
    if program is not None and name not in MODELS:
        batch = int(options[1]) if options[:1] == ["--batch"] else None
        run = program.fit_run(batch, device)
        return replace(run, allocator=allocator, seed=seed)
    run = model_run(Purpose.TIME, RegisteredModel.read(_model_words(training)), allocator)
    return replace(run, seed=seed, device=device, warm_up=FIT_STEPS, turns=0)
