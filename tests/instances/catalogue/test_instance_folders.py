"""A name of the catalogue stands for a file, and an instance is named after its file."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from instances.catalogue import instance_folders
from instances.catalogue.catalogue_file import CATALOGUE, FOLDER
from instances.catalogue.instance_folders import folders_of, name_of_file, named_after, users_folder
from planners import InstanceError, Problem, read_problem, write_problem
from planners.files.named_instance import instance_file
from planners.files.output_file import require_targets
from planners.files.problem_file import problem_digest

NAME = "synthetic-ring-120"
FILE = f"{NAME}.json.gz"


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have no instance beside the catalogue; return the user's folder, whose path has a space."""
    monkeypatch.setattr(instance_folders, "FOLDER", tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "my data"))
    monkeypatch.chdir(tmp_path)
    folder = users_folder()
    folder.mkdir(parents=True)
    return folder


def test_a_name_finds_the_file_beside_the_catalogue() -> None:
    assert instance_file(Path(NAME)) == FOLDER / FILE
    assert read_problem(NAME).tensor_count == 120


def test_a_name_finds_the_file_in_the_folder_of_the_user(wheel: Path) -> None:
    with pytest.raises(InstanceError, match=f"`python -m instances make {NAME}` makes it"):
        read_problem(NAME)
    shutil.copy(FOLDER / FILE, wheel)
    assert read_problem(NAME).tensor_count == 120
    with pytest.raises(Exception, match="which this command reads"):
        require_targets({"--output": wheel / FILE}, [Path(NAME)])


def test_a_file_of_that_name_wins_and_a_folder_does_not(wheel: Path) -> None:
    shutil.copy(FOLDER / FILE, wheel)
    Path(NAME).mkdir()
    assert instance_file(Path(NAME)) == wheel / FILE
    Path(NAME).rmdir()
    shutil.copy(FOLDER / "synthetic-ring-120.json.gz", NAME)
    assert instance_file(Path(NAME)) == Path(NAME)


@pytest.mark.parametrize("name", ["BERT", "brt", "bert.json", "Bert.JSON.gz"])
def test_a_name_that_is_nearly_one_says_which(wheel: Path, name: str) -> None:
    del wheel
    said = f"{name}: no such file; did you mean the instance 'bert' of the catalogue?"
    with pytest.raises(InstanceError, match=re.escape(said)):
        read_problem(name)


@pytest.mark.parametrize("name", ["nothing-alike.json", "a/bert", "/bert", "..", ""])
def test_any_other_name_is_a_path(wheel: Path, name: str) -> None:
    del wheel
    assert instance_file(Path(name)) == Path(name)


@pytest.mark.parametrize("data", ["", "relative"])
def test_a_data_folder_that_is_not_absolute_counts_for_nothing(
    monkeypatch: pytest.MonkeyPatch, data: str
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", data)
    monkeypatch.setenv("HOME", "/home/me")
    assert folders_of(CATALOGUE)[-1] == Path("/home/me/.local/share/gapless/instances")


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
