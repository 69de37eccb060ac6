"""Records on disk survive a kill in the middle of a line, and have one writer at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from evaluation.study.record import MOST_LINE_BYTES, RunStatus
from evaluation.study.records_file import read_records, records_file
from planners.errors import GaplessError, InstanceError
from tests.evaluation.study.test_record import RECORD

LINES = [replace(RECORD, run=f"run {number}").to_json() for number in range(3)]


def test_appended_records_are_read_again(tmp_path: Path) -> None:
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
        assert len(file.known) == kept
        file.append(LINES[kept])
    assert path.read_text() == whole + LINES[kept] + "\n"
    assert [record.to_json() for record in read_records(path)] == LINES[: kept + 1]


def test_a_torn_line_may_be_long(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(LINES[0] + "\n" + LINES[1][:60] + "x" * 200_000)
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


def test_lines_are_dropped_by_number_under_one_lock(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text("".join(f"{line}\n" for line in LINES) + LINES[0][:50])
    with records_file(path) as file:
        file.drop({1, 3})
        assert [record.run for record in read_records(path)] == ["run 1"]
        with pytest.raises(GaplessError, match="another run"), records_file(path):
            pass
        file.append(LINES[2])
        assert [known.run for known in file.known] == ["run 1"]
    assert path.read_text() == f"{LINES[1]}\n{LINES[2]}\n"


def test_a_lock_of_a_file_that_was_replaced_counts_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(f"{LINES[0]}\n")
    lock = fcntl.flock

    def replaced_before(descriptor: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", lock)
        with records_file(path) as other:
            other.drop({1})
            other.append(LINES[1])
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", replaced_before)
    with records_file(path) as file:
        file.append(LINES[2])
    assert [record.run for record in read_records(path)] == ["run 1", "run 2"]


def test_records_are_not_added_to_a_file_that_was_taken_away(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with records_file(path) as file:
        path.unlink()
        with pytest.raises(GaplessError, match="replaced or taken away"):
            file.append(LINES[0])


@pytest.mark.parametrize(
    "content",
    [
        "notes of mine", '{"schema":1}', "[1, 2]\n3", f"{LINES[0]}\nnotes", '{"schema":2,"study":"',
        "\0" * 9, "x" * (MOST_LINE_BYTES + 1),
    ],
)  # fmt: skip
def test_refuses_other_files_and_leaves_them_unchanged(tmp_path: Path, content: str) -> None:
    path = tmp_path / "mine.json"
    path.write_text(content)
    with pytest.raises(InstanceError, match=r"mine\.json:\d"), records_file(path):
        pass
    assert path.read_text() == content


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/full")])
def test_only_a_plain_file_takes_records(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "r")
    needed = pytest.raises(GaplessError, match=r"r: a (plain )?file is needed")
    with needed, records_file(tmp_path / "r"):
        pass


def test_failed_runs_are_known(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(replace(RECORD, status=RunStatus.CRASHED).to_json() + "\n")
    with records_file(path) as file:
        assert [known.failed for known in file.known] == [True]
