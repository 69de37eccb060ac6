"""Made-up predictions and runs of trainings, for what is tested without a GPU."""

from __future__ import annotations

from evaluation.benchmarks.fits.fit_study import FitFindings, FitStudy
from gpu_runtime.training.run_result import Answer, Failure, PeakFigures, RunResult
from gpu_runtime.training.training_run import Allocator, TrainingRun

GIB = 1 << 30

# Of every training, in bytes.
PREDICTED = {"live": 8 * GIB, "default": 12 * GIB, "expandable": 10 * GIB, "planned": 9 * GIB}
RESERVED = {Allocator.DEFAULT: 12 * GIB, Allocator.EXPANDABLE: 10 * GIB, Allocator.PLANNED: 9 * GIB}


def predict(case: TrainingRun) -> dict[str, int] | Failure:
    """Say the same of every training, and nothing of one."""
    return Failure("error: cannot be traced") if case.program == "yolov3" else PREDICTED


def run(case: TrainingRun) -> Answer:
    """Take what was predicted; one takes a quarter more by default, another one fails."""
    if (case.program, case.allocator) == ("vit-base", Allocator.PLANNED):
        return Failure("out of memory: much")
    reserved = RESERVED[case.allocator]
    if (case.program, case.allocator) == ("resnet-50", Allocator.DEFAULT):
        reserved = reserved * 5 // 4
    return RunResult(
        step_seconds=((0.1,),), peaks=PeakFigures(8 * GIB, 9 * GIB, 9 * GIB),
        whole_run_reserved=reserved, environment={"torch": "2.11.0"},
    )  # fmt: skip


def study() -> FitStudy:
    """Return a study of one training that comes out and one that does not."""
    good = FitFindings("bert-base --batch 32", dict(PREDICTED), dict(PREDICTED))
    bad = FitFindings("resnet-50", dict(PREDICTED), {"default": 15 * GIB}, {"planned": "it died"})
    return FitStudy("command", "today", {"torch": "2"}, {"bert-base": good, "resnet-50": bad})
