"""``python -m evaluation.regress``: a line a change, one that counts them, and the exit status."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from evaluation.regress.__main__ import app
from evaluation.study.record import Record
from tests.evaluation.study.made_up_records import record


def answer_to(old: Sequence[Record], new: Sequence[Record], folder: Path) -> Result:
    files = []
    for name, records in (("old.jsonl", old), ("new.jsonl", new)):
        files.append(folder / name)
        text = "".join(f"{its.to_json()}\n" for its in records)
        files[-1].write_text(text, encoding="utf-8")
    return CliRunner().invoke(app, [str(file) for file in files])


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


def test_what_is_no_record_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "new.jsonl").write_text("{}\n")
    (tmp_path / "old.jsonl").write_text(record("a", "greedy").to_json() + "\n")
    answer = CliRunner().invoke(app, [str(tmp_path / "old.jsonl"), str(tmp_path / "new.jsonl")])
    assert answer.exit_code == 2
    assert "new.jsonl:1: " in answer.stderr
    assert answer.stderr.count("\n") == 1
