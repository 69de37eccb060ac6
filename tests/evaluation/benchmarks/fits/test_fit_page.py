"""The page of predicted and measured bytes, from made-up figures, and its command line."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from evaluation.benchmarks import __main__ as command_line
from evaluation.benchmarks.fits import fit_runs
from evaluation.benchmarks.fits.fit_page import fit_page
from evaluation.benchmarks.fits.fit_study import FitStudy, read_fit_study
from gpu_runtime.training.training_run import TrainingRun
from tests.evaluation.benchmarks.fits.made_up_fits import predict, run, study


def cells_of(text: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in text.splitlines()
        if line.startswith("| ") and "predicted" not in line
    ]


def test_a_row_an_allocator_with_what_is_far_in_bold() -> None:
    text = fit_page(study()).render()
    assert cells_of(text) == [
        ["`bert-base --batch 32`", "live", "8,589,934,592", "8,589,934,592", "+0.00%"],
        ["", "default", "12,884,901,888", "12,884,901,888", "+0.00%"],
        ["", "expandable", "10,737,418,240", "10,737,418,240", "+0.00%"],
        ["", "planned", "9,663,676,416", "9,663,676,416", "+0.00%"],
        ["`resnet-50`", "live", "8,589,934,592", "-", "-"],
        ["", "default", "12,884,901,888", "16,106,127,360", "**-20.00%**"],
        ["", "expandable", "10,737,418,240", "-", "-"],
        ["", "planned", "9,663,676,416", "-", "-"],
    ]
    assert "- resnet-50, planned: it died" in text
    # What was not measured whole is not counted.
    assert "- within 1%: 1 of 1\n- within 3%: 1 of 1\n" in text


def test_what_is_beyond_a_limit_is_named() -> None:
    made = study()
    made.findings["resnet-50"].measured = {
        row: size * 50 // 49 for row, size in made.findings["resnet-50"].predicted.items()
    }
    made.findings["resnet-50"].failures.clear()
    text = fit_page(made).render()
    assert "- within 1%: 1 of 2; not resnet-50\n- within 3%: 2 of 2\n" in text
    assert "## Failures" not in text


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """All is predicted and run by stand-ins."""

    def study_fits(
        cases: list[TrainingRun],
        made: FitStudy,
        at_once: int,
        has_more: Callable[[str], None],
    ) -> None:
        fit_runs.study_fits(cases, made, at_once, has_more, predict, run)

    monkeypatch.setattr(command_line, "study_fits", study_fits)
    monkeypatch.setattr(command_line, "require_gpu", lambda: None)
    monkeypatch.setattr(command_line, "use_every_core", lambda: None)


@pytest.mark.usefixtures("measured")
def test_what_is_measured_is_kept_and_read_again(
    main: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    record = tmp_path / "fits.json"
    assert main("fit", "--only", "vit-base,bert-base", "--json", record) == 0
    page = capsys.readouterr().out
    assert "Made by `python -m evaluation.benchmarks fit --only vit-base,bert-base` on" in page
    assert list(read_fit_study(record.read_text(), record.name).findings) == [
        "bert-base", "vit-base",
    ]  # fmt: skip
    assert main("fit", "--from", record) == 0
    assert capsys.readouterr().out == page
    assert main("fit", "--from", record, "-o", record) == 2
    assert "which this command reads" in capsys.readouterr().err.replace("\n", " ")


def test_a_case_that_does_not_exist_is_one_line(
    main: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = os.sched_getaffinity(0)
    assert main("fit", "--only", "vit") == 2
    assert "error: --only: no case is called 'vit'" in capsys.readouterr().err
    os.sched_setaffinity(0, before)
