"""Records have an age, and planners change: said from git, and from nothing where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from evaluation.study import record_age
from evaluation.study.record_age import age_of_records
from evaluation.study.study_file import find_study
from tests.evaluation.study.test_record import RECORD

MADE = "records of 2026-01-02, commit 0123456789ab"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A folder with one record of the study ``exact``."""
    (tmp_path / "exact.jsonl").write_text(replace(RECORD, study="exact").to_json() + "\n")
    return tmp_path


def said_by(answers: dict[str, str | None]) -> object:
    return lambda command, *_: answers[command]


@pytest.mark.parametrize(
    ("answers", "age"),
    [
        ({"cat-file": "", "diff": ""}, f"{MADE}; nothing changed"),
        ({"cat-file": None, "rev-list": "abc", "diff": ""}, f"{MADE}; nothing changed"),
        ({"cat-file": None, "rev-list": None}, MADE),
    ],
)
def test_the_last_record_and_its_commit_are_told(
    results: Path, monkeypatch: pytest.MonkeyPatch, answers: dict[str, str | None], age: str
) -> None:
    record_age._differ.cache_clear()
    monkeypatch.setattr(record_age, "_git", said_by(answers))
    assert age_of_records(find_study("exact"), results) == age
    record_age._differ.cache_clear()


def test_what_changed_since_is_named(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(command: str, *arguments: str) -> str | None:
        changed = command == "diff" and any("planners/exact" in each for each in arguments)
        return None if changed else ""

    record_age._differ.cache_clear()
    monkeypatch.setattr(record_age, "_git", git)
    age = age_of_records(find_study("exact"), results)
    record_age._differ.cache_clear()
    assert age == f"{MADE}; changed since: branch-and-bound"


def test_without_records_the_page_is_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_age, "PAGES", (tmp_path,))
    study = find_study("exact")
    assert age_of_records(study, tmp_path) == "no records"
    (tmp_path / "exact.md").write_text("Made on 2026-01-02 to 2026-01-03; commit 12345678.")
    assert age_of_records(study, tmp_path).startswith(
        "page from records of 2026-01-03, commit 12345678"
    )
