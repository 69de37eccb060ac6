"""What a spreadsheet would run as a formula stands behind an apostrophe; numbers stay numbers."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from typer.testing import CliRunner

from instances.formats.minimalloc_csv import read_minimalloc_csv
from instances.formats.minimalloc_writer import write_minimalloc_csv
from planners import Problem, write_problem
from planners.compare.__main__ import app as compare
from planners.text.csv_cell import csv_cell

FORMULAS = (
    "=1+1",
    "+A1",
    "-cmd|' /C calc'!A0",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    " =1",
    "-2+3",
    "--",
    "=",
)


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_is_text(text: str) -> None:
    assert csv_cell(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "a", "-5", "+5", "-0.25", "1e3", "a=b", "a-b", "bert"])
def test_what_is_none_stays(text: str) -> None:
    assert csv_cell(text) == text


def test_no_cell_that_we_write_is_a_formula(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = ["=A1", "+b", "@c", "-5", "d"]
    problem = Problem([1] * 5, [0] * 5, [1] * 5, tensor_name=names, name="=cmd")
    write_problem(problem, tmp_path / "=x.json")
    answer = CliRunner().invoke(compare, ["=x.json", "--planners", "naive", "--csv"])
    (row,) = csv.DictReader(answer.stdout.splitlines())
    assert row["instance"] == "'=cmd"
    assert not any(cell.startswith(("=", "+", "@")) for cell in row.values())
    assert row["peak"] == "5"
    write_minimalloc_csv(problem, tmp_path / "x.csv")
    read = read_minimalloc_csv(tmp_path / "x.csv")
    assert list(read.tensor_name or ()) == ["'=A1", "'+b", "'@c", "-5", "d"]
