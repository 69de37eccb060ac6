"""Parts of a recording are instances of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.study.planned_runs import PlannedRun, runs_of
from evaluation.study.recording_part import RecordingPart, name_with, settings_in
from evaluation.study.study_instances import Folders
from instances.formats.recorded_trace import write_recorded_trace
from planners import Problem, write_problem
from planners.errors import GaplessError
from tests.evaluation.study.made_runs import written_study
from tests.instances.traces.microbatch_trace import microbatch_trace


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_recorded_trace(microbatch_trace(iterations=3, varying=3), tmp_path / "run.npz")
    return tmp_path


def runs(folder: Path, *lines: str) -> list[PlannedRun]:
    instances = "\n".join(['files = ["run.npz"]', *lines])
    study = written_study(folder, 'planners = ["naive"]\nseconds = 5', instances)
    return runs_of(study, Folders(folder))


@pytest.mark.parametrize(
    ("lines", "name", "size"),
    [
        ([], "run.npz", [64, 16, 4, 16, 4, 8, 16, 7, 16, 7, 8, 16, 10, 16, 10, 8]),
        (['iteration = "0"'], "run.npz:iteration=0", [64, 16, 4, 16, 4, 8]),
        (['iteration = "last"'], "run.npz:iteration=last", [64, 16, 10, 16, 10, 8]),
        (
            ['iteration = "last"', "persistent = false"],
            "run.npz:iteration=last:persistent=false",
            [16, 10, 16, 10, 8],
        ),
        (
            ['iteration = "last"', "static = true"],
            "run.npz:iteration=last:static=true",
            [64, 16, 16, 8],
        ),
        (
            ['iteration = "last"', "microbatches = [3]"],
            "run.npz:iteration=last:microbatches=3",
            [64, 16, 10, 16, 10, 16, 10, 16, 10, 8],
        ),
    ],
)
def test_a_part_of_a_recording_is_a_problem(
    folder: Path, lines: list[str], name: str, size: list[int]
) -> None:
    [run] = runs(folder, *lines)
    problem, requests = run.instance.content()
    assert run.instance.name == problem.name == name
    assert problem.size.tolist() == size
    # What an allocator is asked is known of a recording as a whole.
    assert (requests is None) == bool(lines)


def test_each_number_of_microbatches_is_an_instance(folder: Path) -> None:
    names = [
        run.instance.name for run in runs(folder, 'iteration = "last"', "microbatches = [1, 2]")
    ]
    assert names == ["run.npz:iteration=last", "run.npz:iteration=last:microbatches=2"]


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        (["persistent = false"], "field iteration is needed"),
        (["static = true"], "field iteration is needed"),
        (["microbatches = [2]"], "field iteration is needed"),
        (['iteration = "last"', "microbatches = [0]"], "at least 1 is needed, found 0"),
        (['iteration = "first"'], "'all', 'last', or a whole number"),
        (["iteration = 1"], "field iteration: a text is needed, found 1"),
    ],
)
def test_refuses_wrong_parts_with_their_place(folder: Path, lines: list[str], fault: str) -> None:
    with pytest.raises(GaplessError, match="grid 1, instances 1") as raised:
        runs(folder, *lines)
    assert fault in str(raised.value)


def test_an_instance_has_no_part(folder: Path) -> None:
    write_problem(Problem([4, 8], [0, 1], [2, 3]), folder / "pair.json")
    with pytest.raises(GaplessError, match="a recording is needed"):
        RecordingPart("last").read(folder / "pair.json")


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("bert", {}),
        ("A.12.csv", {"capacity": "12", "variation": "smaller", "seed": "1"}),
        ("a=b.csv", {"capacity": "12"}),
        ("C:files", {"seed": "0"}),
    ],
)
def test_settings_are_read_as_they_were_written(name: str, settings: dict[str, str]) -> None:
    assert settings_in(name_with(name, settings)) == (name, settings)
