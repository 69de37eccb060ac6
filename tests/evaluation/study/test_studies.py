"""The studies that ship: each can be read, names what there is, and has words for its page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from evaluation.study.planned_runs import runs_of
from evaluation.study.study import FileChoice, Study
from evaluation.study.study_file import FOLDER, find_study, studies
from evaluation.study.study_instances import Folders
from evaluation.study.training_grid import trained_programs


@pytest.mark.parametrize("name", studies())
def test_a_study_asks_a_question_and_plans_runs(name: str, tmp_path: Path) -> None:
    study = find_study(name)
    assert study.question.endswith("?")
    if study.training:
        assert trained_programs(study.training)
    else:
        assert runs_of(study, made_up_folders(study, tmp_path))


def made_up_folders(study: Study, within: Path) -> Folders:
    """Return folders in which the files that a study names are there, and empty."""
    folders = Folders(FOLDER, {name: within / name for name in study.folders})
    for folder in folders.given.values():
        folder.mkdir()
    for grid in study.grids:
        for choice in grid.instances:
            patterns = choice.patterns if isinstance(choice, FileChoice) else ()
            for folder_name, pattern in patterns:
                if folder_name is not None:
                    name = re.sub(r"\[(.).*?\]", r"\1", re.sub(r"[*?]", "1048576", pattern))
                    (folders.of(folder_name) / name).touch()
    return folders


@pytest.mark.parametrize("name", studies())
def test_a_study_has_words_for_its_page(name: str) -> None:
    words = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    assert words.startswith("# ")
    assert "{made-on}" in words
    # Alone, or in the command that makes the page.
    assert re.search(rf"`[^`\n]*\b{name}`", words)


def test_nothing_in_the_regression_set_is_limited_by_time() -> None:
    study = find_study("regression")
    assert not study.timed
    for grid in study.grids:
        assert grid.limits.budget_seconds is None
        assert grid.limits.node_limit is not None
