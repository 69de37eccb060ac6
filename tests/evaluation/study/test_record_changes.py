"""Changes between records: each way to lose or to gain, the command, and what is committed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from evaluation.study.__main__ import app
from evaluation.study.planned_runs import runs_of
from evaluation.study.record import ANSWERED, Machine, Record, RunStatus
from evaluation.study.record_changes import Change, ChangeKind, changes_between
from evaluation.study.records_file import read_records
from evaluation.study.study_file import FOLDER, find_study
from evaluation.study.study_instances import Folders
from planners.errors import GaplessError
from tests.evaluation.study.made_up_records import record
from tests.repository import ROOT

OTHER_MACHINE = Machine("another", 1, 1 << 30, "Linux 6")


def change_of(before: dict[str, Any], after: dict[str, Any]) -> tuple[str, str] | None:
    """Return how one run changed, beside one that did not."""
    same = record("b", "greedy")
    changes = changes_between(
        [record("a", "greedy", **before), same], [record("a", "greedy", **after), same]
    )
    assert changes.compared == 2
    assert len(changes.found) <= 1
    return next(((its.kind.value, its.says) for its in changes.found), None)


OPTIMAL = {"status": RunStatus.OPTIMAL, "peak": 12, "lower_bound": 12}
CRASHED = {"status": RunStatus.CRASHED, "peak": None}
INVALID = {"status": RunStatus.INVALID, "peak": 11, "reason": "two tensors overlap"}


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ({}, {}, None),
        ({"peak": 100}, {"peak": 101}, ("worse", "peak 100, now 101 (+1.000%)")),
        ({"peak": 100}, {"peak": 99}, ("better", "peak 100, now 99 (-1.000%)")),
        ({}, CRASHED, ("worse", "had a plan, now crashed")),
        (CRASHED, {}, ("better", "had no plan, now has one")),
        (CRASHED, CRASHED, None),
        (OPTIMAL, {"lower_bound": 12}, ("worse", "was proven optimal, now is not")),
        ({"lower_bound": 12}, OPTIMAL, ("better", "now proven optimal")),
        ({"lower_bound": 11}, {}, ("worse", "bound 11, now 10")),
        ({}, {"lower_bound": 11}, ("better", "bound 10, now 11")),
        ({}, INVALID, ("invalid", "two tensors overlap")),
        (INVALID, INVALID, ("invalid", "two tensors overlap")),
        (INVALID, {}, ("better", "had no plan, now has one")),
        ({}, {"processor_seconds": 0.76}, ("slower", "0.500 s, now 0.760 s")),
        ({}, {"processor_seconds": 0.74}, None),
        ({"kind": "fit", "measured": True}, {"kind": "fit", "measured": True}, None),
        ({"processor_seconds": 0.001}, {"processor_seconds": 0.010}, None),
        ({}, {"processor_seconds": 9.0, "timed": False}, None),
        ({}, {"processor_seconds": 9.0, "machine": OTHER_MACHINE}, None),
    ],
)
def test_each_change_has_its_word(
    before: dict[str, Any], after: dict[str, Any], change: tuple[str, str] | None
) -> None:
    assert change_of(before, after) == change


def found(old: Sequence[Record], new: Sequence[Record]) -> Sequence[Change]:
    return changes_between(old, new).found


def test_a_new_bound_above_a_plan_that_is_there_is_wrong() -> None:
    old = [record("a", "greedy", 12), record("a", "exact", None)]
    new = [record("a", "greedy", 12), record("a", "exact", None, lower_bound=13)]
    changes = changes_between(old, new)
    assert Change(
        ChangeKind.INVALID, "a", "exact", "a bound of 13, above a plan of 12"
    ) in changes.found  # fmt: skip
    assert changes.has_loss


def test_a_run_that_is_missing_is_a_loss_and_a_new_one_is_none() -> None:
    both, more = record("a", "greedy"), record("b", "greedy")
    assert [change.says for change in found([both, more], [both])] == ["the run is missing"]
    changes = changes_between([both], [both, more])
    assert (changes.found, changes.added, changes.has_loss) == ([], 1, False)


@pytest.mark.parametrize(
    "change",
    [
        {"instance_digest": "sha256:other"}, {"planner": "other"}, {"parameters": {"fit": "best"}},
        {"budget_seconds": 3.0}, {"seed": 1}, {"kind": "online"}, {"capacity": 50},
    ],
)  # fmt: skip
def test_only_equal_runs_are_compared(change: dict[str, Any]) -> None:
    both = record("b", "greedy")
    other = record("a", **{"planner": "greedy", "peak": 99, **change})
    changes = changes_between([record("a", "greedy"), both], [other, both])
    assert [each.says for each in changes.found] == ["the run is missing"]
    assert (changes.compared, changes.added) == (1, 1)


def test_repetitions_are_one_run_by_their_middle() -> None:
    old = [record("a", "greedy", peak, repetition=peak) for peak in (12, 13, 20)]
    new = [record("a", "greedy", peak, repetition=peak) for peak in (12, 14, 15)]
    changes = changes_between(old, new)
    assert changes.compared == 1
    assert [its.says for its in changes.found] == ["peak 13, now 14 (+7.692%)"]


def test_the_gravest_come_first_and_only_losses_count() -> None:
    names = ["a", "b", "c", "d"]
    old = [record(name, "greedy", 100) for name in names]
    new = [
        record("a", "greedy", 99), record("b", "greedy", 100, processor_seconds=2.0),
        record("c", "greedy", 101), record("d", "greedy", **{**INVALID, "peak": 100}),
    ]  # fmt: skip
    changes = changes_between(old, new)
    assert [its.kind.value for its in changes.found] == ["invalid", "worse", "slower", "better"]
    assert changes.has_loss
    assert not changes_between(old[:2], new[:2]).has_loss


def test_nothing_in_common_is_an_error() -> None:
    with pytest.raises(GaplessError, match="found none: 1 runs in the old records, 1 in the new"):
        changes_between([record("a", "x")], [record("a", "y")])


def answer_to(old: Sequence[Record], new: Sequence[Record], folder: Path) -> Result:
    files = []
    for name, records in (("old.jsonl", old), ("new.jsonl", new)):
        files.append(folder / name)
        text = "".join(f"{its.to_json()}\n" for its in records)
        files[-1].write_text(text, encoding="utf-8")
    return CliRunner().invoke(app, ["regress", *map(str, files)])


def test_the_same_is_quiet(tmp_path: Path) -> None:
    answer = answer_to([record("a", "greedy")], [record("a", "greedy")], tmp_path)
    assert answer.exit_code == 0
    assert answer.stdout == (
        "1 run compared: 0 invalid, 0 worse, 0 slower, 0 better; times of 1 of them compared\n"
    )


@pytest.mark.parametrize(("peak", "word", "status"), [(13, "worse", 1), (11, "better", 0)])
def test_a_loss_alone_is_a_failure(tmp_path: Path, peak: int, word: str, status: int) -> None:
    new = [record("a", "greedy", peak), record("b", "greedy", timed=False)]
    answer = answer_to([record("a", "greedy", 12)], new, tmp_path)
    assert answer.exit_code == status
    head, line, summary = answer.stdout.splitlines()
    assert head.split() == ["instance", "planner", "what"]
    assert line.startswith(f"{word}  a         greedy   peak 12, now {peak} (")
    assert summary.endswith("times of 1 of them compared; 1 run only in the new records")


def test_a_line_that_is_not_a_record_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "new.jsonl").write_text("{}\n")
    (tmp_path / "old.jsonl").write_text(record("a", "greedy").to_json() + "\n")
    answer = CliRunner().invoke(
        app, ["regress", str(tmp_path / "old.jsonl"), str(tmp_path / "new.jsonl")]
    )
    assert answer.exit_code == 2
    assert "new.jsonl:1: " in answer.stderr
    assert answer.stderr.count("\n") == 1


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
