"""``python -m instances synthetic``: every family, and the command that its origin records."""

from __future__ import annotations

import inspect
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from instances.synthetic import FAMILIES
from instances.synthetic.family import COMMAND
from instances.synthetic.family_commands import app
from planners.files.problem_file import problem_digest, read_gapless_json

SIZES = {
    "neighbour_ring": 3,
    "non_guillotine_packing": 4,
    "first_fit_trap": 2,
    "best_fit_trap": 4,
    "size_order_trap": 2,
    "data_parallel_graph": 3,
    "scaling_family": 120,
}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_recorded_command_makes_the_same_instance(family: str, tmp_path: Path) -> None:
    make = FAMILIES[family]
    other = {"seed": 5} if "seed" in inspect.signature(make).parameters else {}
    problem = make(SIZES.get(family, 60), **other)
    command = str(problem.origin["command"])
    assert command.startswith(f"{COMMAND} ")
    path = tmp_path / "made.json.gz"
    arguments = [*shlex.split(command.removeprefix(COMMAND)), "-o", str(path)]
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    again = read_gapless_json(path)
    assert problem_digest(again) == problem_digest(problem)
    assert dict(again.origin) == dict(problem.origin)
    assert again.name == "made"
    assert f"{problem.tensor_count} tensors" in done.output


def test_a_family_says_what_it_makes_and_takes() -> None:
    done = CliRunner().invoke(app, ["tight-capacity", "--help"])
    assert "capacity in which they fit by construction" in " ".join(done.output.split())
    for option in ("--tensors", "--utilisation", "--steps", "--units", "--seed", "--output"):
        assert option in done.output


def test_the_size_of_a_family_has_no_default(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["guillotine-packing", "-o", str(tmp_path / "x.json")])
    assert done.exit_code == 2
    assert "--tensors" in done.output
