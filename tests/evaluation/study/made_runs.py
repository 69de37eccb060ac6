"""Runs of a study that is written for a test, made in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evaluation.study.kinds import carry_out
from evaluation.study.planned_runs import runs_of
from evaluation.study.record import Record
from evaluation.study.run_task import RunTask
from evaluation.study.runner import tasks_of
from evaluation.study.study import Study
from evaluation.study.study_file import read_study
from evaluation.study.study_instances import Folders


def written_study(folder: Path, settings: str, instances: str) -> Study:
    """Return a study of one grid, which is written into a folder."""
    path = folder / "made.toml"
    path.write_text(
        f'question = "?"\n{settings}\n[[grid]]\n[[grid.instances]]\n{instances}\n', encoding="utf-8"
    )
    return read_study(path)


def tasks_in(study: Study) -> list[RunTask]:
    """Return the tasks of all runs of a study."""
    return list(tasks_of(study, runs_of(study, Folders(study.path.parent))))


def made_records(folder: Path, settings: str, instances: str) -> list[Any]:
    """Return the records of all runs of a study."""
    tasks = tasks_in(written_study(folder, settings, instances))
    return [Record.from_json(carry_out(task), "here") for task in tasks]
