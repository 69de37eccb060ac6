"""Records on disk survive a kill in the middle of a line, and have one writer at a time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from evaluation.study.record import RunStatus
from evaluation.study.records_file import drop_lines, read_records, records_file
from planners.errors import GaplessError
from tests.evaluation.study.test_record import RECORD

LINES = [replace(RECORD, run=f"run {number}").to_json() for number in range(3)]


def test_what_was_appended_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "deeper" / "r.jsonl"
    for number, line in enumerate(LINES):
        with records_file(path) as file:
            assert [known.run for known in file.known] == [f"run {old}" for old in range(number)]
            file.append(line)
    assert [record.to_json() for record in read_records(path)] == LINES


@pytest.mark.parametrize("kept", [0, 1, 2])
@pytest.mark.parametrize("torn", [1, 40, len(LINES[2]) - 1, len(LINES[2])])
def test_a_torn_line_is_cut_off(tmp_path: Path, kept: int, torn: int) -> None:
    path = tmp_path / "r.jsonl"
    whole = "".join(f"{line}\n" for line in LINES[:kept])
    path.write_text(whole + LINES[kept][:torn])
    assert len(list(read_records(path))) == kept
    with records_file(path) as file:
        assert path.read_text() == whole
        file.append(LINES[kept])
    assert [record.to_json() for record in read_records(path)] == LINES[: kept + 1]


def test_a_torn_line_may_be_long(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(LINES[0] + "\n" + "x" * 200_000)
    with records_file(path) as file:
        assert len(file.known) == 1


def test_a_wrong_line_within_the_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(f"{LINES[0]}\n{{}}\n{LINES[1]}\n")
    with pytest.raises(GaplessError, match=r"r\.jsonl:2: field schema"), records_file(path):
        pass


def test_a_device_takes_records_and_keeps_none() -> None:
    with records_file(Path("/dev/null")) as file:
        assert file.known == []
        file.append(LINES[0])
    assert Path("/dev/null").is_char_device()


def test_a_second_writer_is_kept_out(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with (
        records_file(path),
        pytest.raises(GaplessError, match="another run of a study writes here"),
        records_file(path),
    ):
        pass
    with records_file(path):
        pass


def test_lines_are_dropped_by_number(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text("".join(f"{line}\n" for line in LINES))
    drop_lines(path, [1, 3])
    assert [record.run for record in read_records(path)] == ["run 1"]


def test_what_failed_is_known(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(replace(RECORD, status=RunStatus.CRASHED).to_json() + "\n")
    with records_file(path) as file:
        assert [known.failed for known in file.known] == [True]
