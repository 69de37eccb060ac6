"""Findings on their way through JSON, files that are something else, and the cases."""

from __future__ import annotations

import pytest

from evaluation.benchmarks.fits.fit_cases import CASES, find_cases
from evaluation.benchmarks.fits.fit_runs import arguments_of
from evaluation.benchmarks.fits.fit_study import FitFindings, read_fit_study
from gpu_runtime.training.training_run import TrainingRun
from instances.extract.models import find_model
from planners.errors import GaplessError
from tests.evaluation.benchmarks.fits.made_up_fits import study


def test_a_study_comes_back() -> None:
    assert read_fit_study(study().to_json(), "a.json") == study()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[]", "not a file that --json wrote, TypeError"),
        ('{"schema": "gapless-fits", "version": 2}',
         "schema 'gapless-fits' of version 1 is needed, found ('gapless-fits', 2)"),
        (study().to_json().replace('"live"', '"alive"'),
         "ValueError bytes of live, default, expandable, planned are needed, found {'alive'"),
        (study().to_json().replace(str(15 << 30), '"many"'), "found {'default': 'many'}"),
    ],
)  # fmt: skip
def test_another_file_is_one_line(text: str, reason: str) -> None:
    with pytest.raises(GaplessError) as caught:
        read_fit_study(text, "a.json")
    assert str(caught.value).startswith("a.json: ")
    assert reason in str(caught.value)


def test_the_largest_difference_is_that_of_an_allocator_either_way() -> None:
    predicted = {"live": 100, "default": 100, "expandable": 97, "planned": 101}
    found = FitFindings("bert-base", predicted, {**dict.fromkeys(predicted, 100), "live": 50})
    assert found.difference("planned") == pytest.approx(0.01)
    assert found.largest_difference == pytest.approx(0.03)
    del found.measured["default"]
    assert found.difference("default") is None
    assert found.largest_difference is None


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.program)
def test_every_case_is_one_that_its_model_has(case: TrainingRun) -> None:
    its = case.model
    assert its is not None
    find_model(its.name).settings(**its.shape, precision=its.settings.weights_precision)


def test_cases_are_found_by_their_models() -> None:
    assert len({case.program for case in CASES}) == 10
    assert find_cases([]) == list(CASES)
    chosen = find_cases(["vit-base", "bert-base"])
    assert [arguments_of(case) for case in chosen] == [
        "bert-base --batch 32 --seq 512", "vit-base --batch 64",
    ]  # fmt: skip
    with pytest.raises(GaplessError, match="--only: no case is called 'vit'; did you mean 'vit-b"):
        find_cases(["vit"])
