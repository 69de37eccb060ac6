"""What an instance that is written is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from instances.catalogue.instance_folders import name_of_file, named_after
from planners import Problem, read_problem, write_problem
from planners.files.digest import problem_digest


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("folder/bert.json", "bert"),
        ("bert.large.json.gz", "bert.large"),
        ("run.npz", "run.npz"),
        (".json", ".json"),
        ("two\nlines\udcff.json", "two?lines?"),
    ],
)
def test_an_instance_is_called_as_its_file(file: str, name: str) -> None:
    problem = Problem([1], [0], [1], name="model", origin={"model": "x"})
    named = named_after(problem, Path(file))
    assert named.name == name
    assert problem.name == "model"
    assert dict(named.origin) == {"model": "x"}
    assert problem_digest(named) == problem_digest(problem)


def test_a_name_of_a_file_is_one_that_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "ünder\tway.json"
    write_problem(named_after(Problem([1], [0], [1]), path), path)
    assert read_problem(path).name == "ünder?way"


def test_other_files_hold_no_instance_with_a_name() -> None:
    assert name_of_file(Path("plan.csv")) is None
    assert name_of_file(Path("x.json.gz")) == "x"
