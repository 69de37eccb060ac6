"""Trainings predicted and run: by stand-ins, and in real processes without a GPU."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from evaluation.benchmarks.fits.fit_cases import CASES, find_cases
from evaluation.benchmarks.fits.fit_runs import predict_again, predicted_of, study_fits
from evaluation.benchmarks.fits.fit_study import FitFindings, FitStudy
from gpu_runtime.training.run_result import Failure, PeakFigures, RunResult
from gpu_runtime.training.training_run import TrainingRun
from planners.errors import GaplessError
from tests.evaluation.benchmarks.fits.made_up_fits import GIB, PREDICTED, predict, run

# No more work than a network of images of 32 pixels.
CASE = find_cases(["mobilenet-v2"])[0]
assert CASE.model is not None
SMALL_MODEL = replace(CASE.model, shape={"batch": 2, "image": 32})
SMALL = replace(CASE, model=SMALL_MODEL, warm_up=1, turn_steps=1, device="cpu")


def test_every_answer_lands_where_it_belongs() -> None:
    study, said = FitStudy("command", "today"), list[str]()
    study_fits(CASES, study, 3, said.append, predict, run)
    assert sorted(said) == sorted(
        f"{case.program}, {label}"
        for case in CASES
        for label in ("prediction", "default", "expandable", "planned")
    )
    assert study.environment == {"torch": "2.11.0"}
    bert = FitFindings("bert-base --batch 32 --seq 512", PREDICTED, PREDICTED)
    assert study.findings["bert-base"] == bert
    assert study.findings["resnet-50"].measured == {**PREDICTED, "default": 15 * GIB}
    assert study.findings["yolov3"].failures == {"prediction": "error: cannot be traced"}
    assert study.findings["yolov3"].measured == PREDICTED
    assert study.findings["vit-base"].failures == {"planned": "out of memory: much"}
    assert list(study.findings) == [case.program for case in CASES]


def test_each_allocator_has_a_process_and_whole_runs_count() -> None:
    ran: list[str] = []

    def remembering(case: TrainingRun) -> RunResult:
        ran.append(case.label)
        return RunResult(step_seconds=((0.1,),), peaks=PeakFigures(3, 4, 5), whole_run_reserved=6)

    study = FitStudy("command", "today")
    study_fits([SMALL], study, 1, lambda _: None, predict, remembering)
    assert ran == ["time default", "time expandable", "time planned"]
    assert study.findings["mobilenet-v2"].measured == {
        "live": 3, "default": 6, "expandable": 6, "planned": 6,
    }  # fmt: skip


def test_what_every_run_would_fail_for_ends_the_study() -> None:
    failing = Failure("PyTorch finds no CUDA device", is_general=True)
    with pytest.raises(GaplessError, match="PyTorch finds no CUDA device"):
        study_fits([SMALL], FitStudy("", ""), 2, lambda _: None, predict, lambda _: failing)


@pytest.mark.torch
def test_real_processes_predict_and_train() -> None:
    study = FitStudy("command", "today")
    study_fits([SMALL], study, 1, lambda _: None)
    found = study.findings["mobilenet-v2"]
    assert found.training == "mobilenet-v2 --batch 2 --image 32 --optimizer sgd"
    assert list(found.predicted) == ["live", "default", "expandable", "planned"]
    live, *reserved = found.predicted.values()
    assert all(live < size < 2 * live for size in reserved)
    # A processor has no allocator that counts.
    nobody = dict.fromkeys(("default", "expandable", "planned"), "nobody counted its memory")
    assert (found.measured, found.failures) == ({}, nobody)
    assert study.environment["torch"]


@pytest.mark.torch
def test_what_goes_wrong_in_a_prediction_is_told() -> None:
    refused = predicted_of(replace(SMALL, model=replace(SMALL_MODEL, shape={"image": 0})))
    assert isinstance(refused, Failure)
    assert "setting image: at least 1, found 0" in refused.message


@pytest.mark.gpu
def test_a_prediction_is_what_a_gpu_takes() -> None:
    study = FitStudy("command", "today")
    study_fits(find_cases(["bert-base"]), study, 2, lambda _: None)
    found = study.findings["bert-base"]
    assert not found.failures
    assert found.largest_difference is not None
    assert found.largest_difference < 0.03


def test_what_was_measured_stays_when_it_is_predicted_again() -> None:
    findings = FitFindings("bert-base", {"live": 1}, {"live": 2}, {"planned": "out of memory"})
    study = FitStudy("command", "today", findings={"bert-base": findings})
    said = list[str]()
    predict_again(CASES, study, 2, said.append, predict)
    assert said == ["bert-base, prediction"]
    known = FitFindings("bert-base", PREDICTED, {"live": 2}, {"planned": "out of memory"})
    assert study.findings == {"bert-base": known}
