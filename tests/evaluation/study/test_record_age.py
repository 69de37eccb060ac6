"""Records have an age, and planners change: said from git, and from nothing where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from evaluation.study import record_age
from evaluation.study.record_age import age_of_records
from evaluation.study.records_file import read_records
from evaluation.study.study_file import find_study
from tests.evaluation.study.made_up_records import record
from tests.evaluation.study.test_record import RECORD

UNHELD = "changed, and not in those records"
SAME = "changed, with the same answers there"
OTHER = "other answers in the regression records"
MADE = "records of 2026-01-02, commit 0123456789ab"


@pytest.fixture(autouse=True)
def forget_what_git_said() -> None:
    record_age._differ.cache_clear()
    record_age._computes_otherwise.cache_clear()
    record_age._answers_since.cache_clear()


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
        ({"cat-file": "", "diff": "", "show": ""}, f"{MADE}; nothing changed"),
        (
            {"cat-file": None, "rev-list": "abc", "diff": "", "show": ""},
            f"{MADE}; {record_age.UNKNOWN}",
        ),
        ({"cat-file": None, "rev-list": None}, f"{MADE}; {record_age.UNKNOWN}"),
    ],
)
def test_the_last_record_and_its_commit_are_told(
    results: Path, monkeypatch: pytest.MonkeyPatch, answers: dict[str, str | None], age: str
) -> None:
    monkeypatch.setattr(record_age, "_git", said_by(answers))
    assert age_of_records(find_study("exact"), results) == age


@pytest.mark.parametrize(
    ("before", "peaks", "age"),
    [
        (None, {}, f"{UNHELD}: branch-and-bound"),
        (None, {"auto": 11}, f"{UNHELD}: branch-and-bound"),
        (None, {"branch-and-bound": 12}, f"{SAME}: branch-and-bound"),
        (None, {"branch-and-bound": 11}, f"{OTHER}: branch-and-bound"),
        ("# Other words.\n{}", {}, "nothing changed"),
        ("# Other words.\n{}", {"branch-and-bound": 12}, "nothing changed"),
        # Code that a planner shares with others is not in its folders.
        ("# Other words.\n{}", {"branch-and-bound": 13}, f"{OTHER}: branch-and-bound"),
        ("{}\nx = 1", {}, f"{UNHELD}: branch-and-bound"),
    ],
)
def test_names_changed_planners_and_changed_answers(
    results: Path,
    monkeypatch: pytest.MonkeyPatch,
    before: str | None,
    peaks: dict[str, int],
    age: str,
) -> None:
    name = "planners/exact/__init__.py"
    now = (record_age.ROOT / name).read_text(encoding="utf-8")
    committed = record_age.ROOT / "evaluation" / "records" / "regression.jsonl"
    held = [record("a", planner) for planner in ("auto", "branch-and-bound")]
    monkeypatch.setattr(record_age, "read_records", lambda path: {committed: held}.get(path) or
                        read_records(path))  # fmt: skip

    def git(command: str, *arguments: str) -> str | None:
        if command == "show" and arguments[0].endswith("regression.jsonl"):
            return "\n".join(record("a", *its).to_json() for its in peaks.items())
        if command == "show":
            return None if before is None else before.format(now)
        is_exact = command == "diff" and any("planners/exact" in each for each in arguments)
        return name if is_exact else ""

    monkeypatch.setattr(record_age, "_git", git)
    assert age_of_records(find_study("exact"), results) == f"{MADE}; {age}"


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("int a = 1; // one", "int a  =\n1; /* two\n lines */", True),
        ('f("// a");', 'f("// b");', False),
        ("char c = '\"'; // a", "char c = '\"'; // b", True),
    ],
)
def test_comments_of_cpp_change_nothing(one: str, other: str, is_same: bool) -> None:
    found = [record_age._without_words("a.cpp", text) for text in (one, other)]
    assert (found[0] == found[1]) is is_same


def test_without_records_the_page_is_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_age, "PAGES", (tmp_path,))
    monkeypatch.setattr(record_age, "COMMITTED", tmp_path)
    study = find_study("exact")
    assert age_of_records(study, tmp_path) == "no records"
    (tmp_path / "exact.md").write_text(
        "Made on 2026-01-02 to 2026-01-03; commit 12345678.\n\nAgain on 2026-01-09, commit abcdef1."
    )
    assert age_of_records(study, tmp_path).startswith(
        "page from records of 2026-01-03, commit 12345678"
    )


def test_a_planner_under_a_limit_is_another_than_the_one_of_its_name() -> None:
    limits = record_age._planners(find_study("under-a-limit"))
    assert limits["cp-sat under a limit"] == "planners.recompute.exact_planner"
    assert record_age._planners(find_study("small-graphs"))["cp-sat"].startswith("planners.exact")


def test_the_code_below_a_training_is_that_of_its_heap() -> None:
    module = record_age._planners(find_study("programs"))["planned"]
    rooms = [Path(path).relative_to(record_age.ROOT) for path in record_age._paths_of(module)]
    assert Path("gpu_runtime/core/src/allocator") in rooms
    assert Path("gpu_runtime/core/src/device") in rooms
