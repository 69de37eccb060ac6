"""Trainings predicted without a GPU and run on one, in processes of their own."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial

from msgspec.structs import replace

from evaluation.benchmarks.fits.fit_study import FitFindings, FitStudy
from gpu_runtime.fitting.fit_check import LIVE
from gpu_runtime.training.run_processes import answer_of
from gpu_runtime.training.run_result import Answer, Failure, RunResult
from gpu_runtime.training.training_run import JUDGED, Allocator, TrainingRun
from planners.errors import GaplessError
from planners.processes import child_process
from planners.processes.side_by_side import side_by_side

# As `gpu_runtime.fit` calls them.
REPLAYED = {
    Allocator.DEFAULT: "pytorch-caching",
    Allocator.EXPANDABLE: "pytorch-expandable",
    Allocator.PLANNED: "planned",
}
PREDICTION = "prediction"

# Bytes by row.
Predicted = dict[str, int]
Predict = Callable[[TrainingRun], Predicted | Failure]
Run = Callable[[TrainingRun], Answer]
# Whose, what it is called, and what does it.
Job = tuple[TrainingRun, str, Callable[[], Predicted | Answer]]


def arguments_of(case: TrainingRun) -> str:
    """Return model and loop, as commands take them."""
    return case.model.arguments if case.model else ""


def predicted_of(case: TrainingRun) -> Predicted | Failure:
    """Ask ``gpu_runtime.fit``, which sees no GPU."""
    done = child_process.run_to_end(
        [sys.executable, "-m", "gpu_runtime.fit", *arguments_of(case).split(), "--json"],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        return Failure(said[-1].strip() if said else f"exit code {done.returncode}")
    rows = {row["label"]: row["reserved_peak"] for row in json.loads(done.stdout)["allocators"]}
    return {LIVE: rows[LIVE], **{str(its): rows[label] for its, label in REPLAYED.items()}}


def study_fits(
    cases: Sequence[TrainingRun],
    study: FitStudy,
    at_once: int,
    has_more: Callable[[str], None],
    predict: Predict = predicted_of,
    run: Run = answer_of,
) -> None:
    """Predict and run every case under every allocator; the study is filled as answers come.

    What listens is called with each that is done. Memory does not depend on what runs beside it, as
    long as there is enough: processes of different models stand side by side, the largest apart.
    """
    for case in cases:
        study.findings[case.program] = FitFindings(arguments_of(case))
    todo: list[Job] = [(case, PREDICTION, partial(predict, case)) for case in cases]
    todo += [
        (case, str(allocator), partial(run, replace(case, allocator=allocator)))
        for allocator in JUDGED
        for case in cases
    ]
    _answer_all(todo, study, at_once, has_more)


def predict_again(
    cases: Sequence[TrainingRun],
    study: FitStudy,
    at_once: int,
    has_more: Callable[[str], None],
    predict: Predict = predicted_of,
) -> None:
    """Predict the cases of a study that was measured before."""
    known = [case for case in cases if case.program in study.findings]
    _answer_all(
        [(case, PREDICTION, partial(predict, case)) for case in known], study, at_once, has_more
    )


def _answer_all(
    todo: Sequence[Job], study: FitStudy, at_once: int, has_more: Callable[[str], None]
) -> None:
    for number, answer in side_by_side([job for _, _, job in todo], at_once):
        case, label, _ = todo[number]
        _keep(study, study.findings[case.program], label, answer)
        has_more(f"{case.program}, {label}")


def _keep(study: FitStudy, findings: FitFindings, label: str, answer: Predicted | Answer) -> None:
    findings.failures.pop(label, None)
    if isinstance(answer, Failure):
        if answer.is_general:
            raise GaplessError(answer.message)
        findings.failures[label] = answer.message
        if label == PREDICTION:
            findings.predicted = {}
    elif isinstance(answer, RunResult):
        study.environment = study.environment or answer.environment
        if answer.peaks is None or answer.whole_run_reserved is None:
            findings.failures[label] = "nobody counted its memory"
            return
        findings.measured[label] = answer.whole_run_reserved
        if label == Allocator.DEFAULT:
            findings.measured[LIVE] = answer.peaks.requested
    elif isinstance(answer, dict):
        findings.predicted = answer
