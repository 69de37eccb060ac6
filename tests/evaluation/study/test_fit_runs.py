"""Memory of trainings: predicted by a process without a GPU, and taken by one that trains."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.study import fit_runs
from evaluation.study.planned_runs import runs_of
from evaluation.study.record import FitRecord, RunStatus
from evaluation.study.study_file import find_study
from evaluation.study.study_instances import Folders
from gpu_runtime.training.run_result import Answer, Failure, PeakFigures, RunResult
from gpu_runtime.training.training_run import Allocator, TrainingRun
from instances.extract.models import MODELS, find_model
from planners.errors import GaplessError
from tests.evaluation.study.made_runs import made_records, written_study

# No more work than a network of images of 32 pixels.
SMALL = "mobilenet-v2 --batch 2 --image 32 --optimizer sgd"


def records(folder: Path, device: str, training: str = SMALL) -> list[FitRecord]:
    settings = f'fit = ["*"]\nseconds = 600\nmemory = "128TiB"\ndevice = "{device}"'
    return made_records(folder, settings, f'trainings = ["{training}"]')


def test_every_training_is_a_program_or_one_that_its_model_has() -> None:
    runs = runs_of(find_study("fit-against-reality"), Folders(Path()))
    assert len(runs) == len({run.key for run in runs})
    programs = set()
    for name in {run.instance.name for run in runs}:
        its = fit_runs.run_of(name, Allocator.PLANNED)
        if its.model is None:
            programs.add(its.program)
            assert fit_runs.words_of(name)[1] == f"--set=program={its.program}"
        elif its.model.name in MODELS:
            model = its.model
            assert sorted(model.arguments.split()) == sorted(name.split())
            model_settings = model.settings.weights_precision
            find_model(model.name).settings(**model.shape, precision=model_settings)
        else:
            assert Path(its.model.name).is_file()
    assert {"plain", "resnet-50"} < programs


def test_a_program_of_the_name_of_a_model_has_a_prefix() -> None:
    assert fit_runs.words_of("resnet-50 --batch 2") == ["resnet-50", "--batch", "2"]
    words = fit_runs.words_of("programs/resnet-50 --batch 2")
    assert words[1:3] == ["--set=program=resnet-50", "--set=batch=2"]


@pytest.mark.parametrize(
    ("result", "status", "peak", "reason"),
    [
        (
            RunResult(peaks=PeakFigures(3, 4, 5), whole_run_reserved=6),
            RunStatus.FEASIBLE,
            6,
            None,
        ),
        (RunResult(), RunStatus.UNSUPPORTED, None, "its memory was not counted"),
        (Failure("out of memory: much"), RunStatus.OUT_OF_MEMORY, None, "out of memory: much"),
        (Failure("the process died"), RunStatus.CRASHED, None, "the process died"),
    ],
)
def test_the_memory_of_a_training_is_recorded(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    result: Answer,
    status: RunStatus,
    peak: int | None,
    reason: str | None,
) -> None:
    def run(run: TrainingRun) -> Answer:
        assert run.model is not None
        assert run.model.arguments == SMALL
        return result

    monkeypatch.setattr(fit_runs, "answer_of", run)
    found = records(tmp_path, "cuda")
    assert [record.planner for record in found] == list(fit_runs.ALLOCATORS)
    for record in found:
        assert (record.measured, record.status, record.peak, record.reason) == (
            True, status, peak and 5, reason,
        )  # fmt: skip
        assert record.requested == (None if peak is None else 3)
    assert len({record.run for record in found}) == 3


def test_a_general_failure_ends_the_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = Failure("PyTorch finds no CUDA device", is_general=True)
    monkeypatch.setattr(fit_runs, "answer_of", lambda _: failing)
    with pytest.raises(GaplessError, match="PyTorch finds no CUDA device"):
        records(tmp_path, "cuda")


@pytest.mark.torch
def test_a_prediction_is_made_once_for_pytorch_and_once_for_a_plan(tmp_path: Path) -> None:
    before = fit_runs._predicted.cache_info().misses
    found = records(tmp_path, "ledger")
    assert fit_runs._predicted.cache_info().misses == before + 2
    for record in found:
        assert not record.measured
        assert record.status is RunStatus.FEASIBLE, record.reason
        assert record.requested is not None
        assert record.peak is not None
        assert record.requested < record.peak < 2 * record.requested


@pytest.mark.torch
def test_a_training_within_a_memory_fits_or_not(tmp_path: Path) -> None:
    fits = 'fit = ["pytorch-caching:memory={}MiB"]\nseconds = 600\nmemory = "128TiB"'
    instances = f'trainings = ["{SMALL}"]'
    found = [made_records(tmp_path, fits.format(mib), instances)[0] for mib in (40, 4_000)]
    assert [its.status for its in found] == [RunStatus.INFEASIBLE, RunStatus.FEASIBLE]
    assert found[0].parameters == {"memory": 40 << 20}


@pytest.mark.torch
def test_estimators_take_models_alone(tmp_path: Path) -> None:
    asked = 'fit = ["accelerate", "torch-mem-tracker"]\nseconds = 600\nmemory = "128TiB"'
    found = made_records(tmp_path, asked, f'trainings = ["{SMALL}", "plain"]')
    weights, tracked, *scripts = found
    assert weights.peak == 4 * 4 * 3_504_872  # weights, gradients and two states in float32
    assert tracked.peak is not None
    assert tracked.peak > 3 * 4 * 3_504_872  # of SGD, which has one state
    assert {its.status for its in scripts} == {RunStatus.UNSUPPORTED}


@pytest.mark.torch
def test_a_failed_prediction_has_its_reason(tmp_path: Path) -> None:
    found = records(tmp_path, "ledger", "mobilenet-v2 --image 0")
    assert {record.status for record in found} == {RunStatus.UNSUPPORTED}
    assert "setting image: at least 1, found 0" in (found[0].reason or "")


@pytest.mark.parametrize(
    ("named", "instances", "message"),
    [
        ('fit = ["planed"]', 'trainings = ["a"]', "did you mean 'planned'"),
        ('fit = ["planned:memory=1GiB"]', 'trainings = ["a"]', "memory=NUMBERMiB is needed"),
        ('fit = ["*"]', 'names = ["bert"]', "field fit runs on trainings"),
        ('online = ["vpmm"]', 'trainings = ["a"]', "field online runs on inst"),
    ],
)
def test_a_grid_names_who_can_run_on_it(
    tmp_path: Path, named: str, instances: str, message: str
) -> None:
    study = written_study(tmp_path, f"seconds = 1\n{named}", instances)
    with pytest.raises(GaplessError, match=message):
        runs_of(study, Folders(tmp_path))
