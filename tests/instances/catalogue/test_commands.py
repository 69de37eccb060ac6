"""``python -m instances``: a collection of our own from its first file to a list of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from instances.__main__ import app
from instances.catalogue.catalogue_file import CATALOGUE, read_catalogue, write_catalogue
from instances.synthetic import best_fit_trap, neighbour_ring, random_lifetimes, training_graph
from planners import Problem, write_problem
from tests.command_line import require_one_line, run_command


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_problem(neighbour_ring(3), tmp_path / "ring.json.gz")
    write_problem(training_graph(20, streams=3, chains=2), tmp_path / "graph.json")
    return tmp_path


def run(folder: Path, *arguments: str) -> Result:
    return run_command(app, *arguments, "--catalogue", folder / "catalogue.toml")


def test_a_collection_is_catalogued_listed_and_made_again(folder: Path) -> None:
    done = run(folder, "update")
    assert done.exit_code == 0, done.stderr
    assert "ring: 3584 bytes, optimal, by " in done.stdout
    entries = read_catalogue(folder / "catalogue.toml")
    assert list(entries) == ["graph", "ring"]
    assert entries["graph"].tags == ("streams", "chains")
    assert entries["ring"].tags == ("capacity", "known-optimum")
    assert entries["ring"].fits is False
    assert entries["ring"].origin == "neighbour_ring"

    written = (folder / "catalogue.toml").read_bytes()
    assert "as before" in run(folder, "update", "ring").stdout
    assert (folder / "catalogue.toml").read_bytes() == written

    (folder / "ring.json.gz").unlink()
    answer = run(folder, "list")
    # A program that reads standard output finds rows there and no note.
    assert len(answer.stdout.splitlines()) == 3
    assert "regenerated" not in answer.stdout
    assert "not here: ring; python -m instances make --missing" in answer.stderr
    assert "not here, left as it is" in run(folder, "update", "ring").stderr
    made = run(folder, "make", "--missing")
    assert made.stdout == f"{folder / 'ring.json.gz'}: the recorded instance\n", made.stderr
    assert run(folder, "make", "--missing").stdout == ""
    shown = run(folder, "show", "ring").stdout
    assert "python -m instances synthetic neighbour-ring --pairs 3" in shown
    records = json.loads(run(folder, "list", "--json").stdout)["instances"]
    assert [record["name"] for record in records] == ["graph", "ring"]


def test_fields_by_hand_and_best_plans_are_kept(folder: Path) -> None:
    run(folder, "update", "ring")
    catalogue = folder / "catalogue.toml"
    (ring,) = read_catalogue(catalogue).values()
    better = replace(ring.best, planner="a-better-one", commit="0" * 12)
    by_hand = replace(ring, notes="a note", tags=("mine",), origin="ours", best=better)
    write_catalogue([by_hand], catalogue)
    run(folder, "update", "ring")
    assert read_catalogue(catalogue) == {"ring": by_hand}

    worse = replace(better, peak=10 * ring.best.peak, status="feasible")
    write_catalogue([replace(by_hand, best=worse)], catalogue)
    assert "changed" in run(folder, "update", "ring").stdout
    assert read_catalogue(catalogue)["ring"].best == ring.best

    # Another instance under the same name has no plan on record.
    write_problem(neighbour_ring(5), folder / "ring.json.gz")
    run(folder, "update", "ring")
    another = read_catalogue(catalogue)["ring"]
    assert another.best.peak == 11 * 512
    assert another.notes == "a note"


def test_instances_elsewhere_are_added_as_regenerated(folder: Path) -> None:
    elsewhere = folder / "made"
    elsewhere.mkdir()
    write_problem(best_fit_trap(3), elsewhere / "trap.json.gz")
    done = run(folder, "update", "trap", "--folder", str(elsewhere))
    assert done.exit_code == 0, done.stderr
    (trap,) = read_catalogue(folder / "catalogue.toml").values()
    assert not trap.committed
    assert trap.kind == "synthetic"


def unknown_origin(**origin: str) -> Problem:
    lifetimes = random_lifetimes(5)
    return Problem(lifetimes.size, lifetimes.start, lifetimes.end, name="trace", origin=origin)


def test_an_instance_without_a_generator_is_a_trace(folder: Path) -> None:
    write_problem(unknown_origin(), folder / "trace.json")
    run(folder, "update", "trace")
    trace = read_catalogue(folder / "catalogue.toml")["trace"]
    assert (trace.kind, trace.origin, trace.command) == ("extracted trace", "trace", "")
    done = run(folder, "make", "trace", "-o", ".")
    assert done.exit_code == 2
    assert done.stderr == "error: instance trace: no command is recorded; it is kept as a file\n"


def test_an_instance_of_a_compiler_is_a_lowered_program(folder: Path) -> None:
    write_problem(unknown_origin(compiler="ExecuTorch", executorch="1"), folder / "trace.json")
    run(folder, "update", "trace")
    lowered = read_catalogue(folder / "catalogue.toml")["trace"]
    assert (lowered.kind, lowered.made_with) == ("lowered program", "executorch 1")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["list"], "catalogue.toml: the file cannot be read: No such file or directory"),
        (["show", "ring"], "the file cannot be read"),
        (["update", "rong"], "no instance matches 'rong'; did you mean 'ring'?"),
        (["make"], "no instance named; give names, or --missing"),
    ],
)
def test_a_mistake_is_one_line(folder: Path, arguments: list[str], message: str) -> None:
    require_one_line(run(folder, *arguments), message)


def test_the_catalogue_of_an_installed_package_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    before = CATALOGUE.read_bytes()
    monkeypatch.setattr("instances.__main__.is_checkout", lambda: False)
    answer = CliRunner().invoke(app, ["update", "no-such-instance"])
    assert answer.exit_code == 2
    assert answer.stderr == (
        f"error: --catalogue: {CATALOGUE} is the installed package's; name a file of your own\n"
    )
    assert CATALOGUE.read_bytes() == before
