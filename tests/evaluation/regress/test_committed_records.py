"""The committed records are of the runs that the study of CI makes today."""

from __future__ import annotations

from evaluation.study.planned_runs import runs_of
from evaluation.study.record import ANSWERED
from evaluation.study.records_file import read_records
from evaluation.study.study_file import FOLDER, find_study
from evaluation.study.study_instances import Folders
from tests.repository import ROOT

RECORDS = ROOT / "evaluation/records/regression.jsonl"


def test_every_run_of_the_study_has_its_record() -> None:
    planned = {run.key for run in runs_of(find_study("regression"), Folders(FOLDER))}
    kept = {record.run for record in read_records(RECORDS)}
    assert kept == planned, (
        "python -m evaluation.study run regression -o evaluation/records/regression.jsonl"
    )


def test_the_records_are_of_answers_that_repeat() -> None:
    records = list(read_records(RECORDS))
    assert {record.budget_seconds for record in records} == {None}
    assert {record.commit is not None for record in records} == {True}
    with_plan = [record for record in records if record.status in ANSWERED]
    assert len(with_plan) > 0.9 * len(records)
