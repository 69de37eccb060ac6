"""Every committed instance against its entry: digest, counts, bounds, best plan, command, size."""

from __future__ import annotations

import shlex
import subprocess
from functools import cache
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from instances.__main__ import app as collection
from instances.catalogue.catalogue_entry import CONSTRUCTION, CatalogueEntry
from instances.catalogue.catalogue_file import CATALOGUE, FOLDER, read_catalogue, write_catalogue
from instances.catalogue.make import module_and_arguments
from instances.catalogue.update import GREEDY, facts_of, instance_files
from instances.extract.__main__ import app as extract
from instances.extract.executorch.lowering import app as executorch
from instances.extract.trace_command import app as trace
from planners import Problem, Result, run
from planners.files.problem_file import problem_digest, read_gapless_json
from planners.registry import choose, planners
from tests.slow import one_by_one

ROOT = FOLDER.parent
LIMIT_BYTES = 30_000_000
LIMIT_SYNTHETIC_BYTES = 100_000

ENTRIES = read_catalogue()
COMMITTED = [name for name, entry in ENTRIES.items() if entry.committed]
SMALL_TENSORS = 5_000
SMALLEST_FIRST = sorted(COMMITTED, key=lambda name: ENTRIES[name].facts.tensors)
SMALL = sum(ENTRIES[name].facts.tensors < SMALL_TENSORS for name in COMMITTED)
SYNTHETIC = [name for name in COMMITTED if ENTRIES[name].kind == "synthetic"]

# The command line of each module that a recorded command may run.
COMMAND_LINES = {
    "instances": collection,
    "instances.extract": extract,
    "instances.extract trace": trace,
    "instances.extract executorch": executorch,
}


@cache
def problem_of(name: str) -> Problem:
    return read_gapless_json(FOLDER / ENTRIES[name].file)


def committed_files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / name for name in listed.stdout.split("\0") if name]


def beaten(entry: CatalogueEntry, result: Result) -> str:
    """Say that a plan beats the best known, and what records it; empty where it does not."""
    assert result.peak is not None, f"{entry.name}: {result.planner} has no plan: {result.reason}"
    if result.peak >= entry.best.peak:
        return ""
    return (
        f"a plan of {result.peak} bytes by {result.planner} beats the best known "
        f"{entry.best.peak}: run python -m instances update {entry.name}"
    )


def require_not_beaten(name: str, patterns: str) -> None:
    asked = problem_of(name).with_capacity(None)
    entry = ENTRIES[name]
    results = [run(asked, chosen) for chosen in choose(patterns)]
    said = [beaten(entry, result) for result in results]
    assert not any(said), "; ".join(filter(None, said))
    if entry.difficulty == "hard" and entry.best.certificate in entry.facts.bounds:
        met = [result.planner for result in results if result.peak == entry.best.peak]
        assert not met, f"the planner of the best plan is {met[0]}, which makes {name} easy"


# --- files and repository ------------------------------------------------------------------


def test_every_committed_file_is_in_the_catalogue_and_the_other_way_round() -> None:
    committed = committed_files()
    files = {path.name for path in instance_files(FOLDER).values() if path in committed}
    assert files == {ENTRIES[name].file for name in COMMITTED}
    for name, entry in ENTRIES.items():
        assert entry.file in (f"{name}.json", f"{name}.json.gz", f"{name}.csv")
        assert entry.file.endswith(".csv") == bool(entry.source)
        assert not (entry.source and entry.committed)


def test_every_instance_is_called_what_the_catalogue_calls_it() -> None:
    names = [problem_of(name).name for name in COMMITTED]
    assert names == COMMITTED
    assert len(set(names)) == len(names)


def test_the_repository_stays_small() -> None:
    assert sum(path.stat().st_size for path in committed_files() if path.exists()) < LIMIT_BYTES


def test_synthetic_files_are_small() -> None:
    sizes = {name: (FOLDER / ENTRIES[name].file).stat().st_size for name in SYNTHETIC}
    assert [name for name, size in sizes.items() if size > LIMIT_SYNTHETIC_BYTES] == []


def test_the_catalogue_is_as_its_writer_writes_it(tmp_path: Path) -> None:
    written = tmp_path / "catalogue.toml"
    write_catalogue(ENTRIES.values(), written)
    assert written.read_bytes() == CATALOGUE.read_bytes()


# --- facts ---------------------------------------------------------------------------------


@one_by_one("name", SMALLEST_FIRST, first=SMALL)
def test_the_facts_of_an_instance_are_those_of_its_entry(name: str) -> None:
    assert facts_of(problem_of(name)) == ENTRIES[name].facts


# --- best known plans ----------------------------------------------------------------------


@one_by_one("name", SMALLEST_FIRST, first=SMALL)
def test_no_greedy_plan_beats_the_best_known(name: str) -> None:
    require_not_beaten(name, GREEDY)


@pytest.mark.parametrize("name", ENTRIES)
def test_the_best_known_stands_on_a_bound(name: str) -> None:
    facts, best = ENTRIES[name].facts, ENTRIES[name].best
    assert (best.status == "optimal") == (best.peak == best.lower_bound)
    assert max(facts.bounds.values()) <= best.lower_bound <= best.peak
    known = {**facts.bounds, CONSTRUCTION: facts.optimum}
    if best.certificate in known:
        assert best.lower_bound == known[best.certificate]
    else:
        # The exhausted search of a planner.
        assert best.certificate in {info.name for info in planners()}
    if facts.optimum is not None:
        assert best.lower_bound == facts.optimum
        assert facts.proof


# --- recorded commands ---------------------------------------------------------------------


def command_of(name: str) -> tuple[typer.Typer, list[str]]:
    module, arguments = module_and_arguments(ENTRIES[name])
    if (longer := f"{module} {arguments[0]}") in COMMAND_LINES:
        return COMMAND_LINES[longer], arguments[1:]
    assert module in COMMAND_LINES, f"{name}: {module} needs its command line in COMMAND_LINES"
    return COMMAND_LINES[module], arguments


@pytest.mark.parametrize("name", [name for name, entry in ENTRIES.items() if entry.command])
def test_a_recorded_command_is_one_that_the_command_line_takes(name: str) -> None:
    parse(*command_of(name))


def parse(app: typer.Typer, arguments: list[str]) -> None:
    """Let a command line take arguments as far as it can without running anything."""
    command = typer.main.get_command(app)
    while subcommands := getattr(command, "commands", None):
        command, arguments = subcommands[arguments[0]], arguments[1:]
    command.make_context("x", [*arguments, "-o", "x"])


@pytest.mark.parametrize("name", SYNTHETIC)
def test_a_synthetic_instance_is_made_again(name: str, tmp_path: Path) -> None:
    app, arguments = command_of(name)
    path = tmp_path / ENTRIES[name].file
    done = CliRunner().invoke(app, [*arguments, "-o", str(path)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    again = read_gapless_json(path)
    assert problem_digest(again) == ENTRIES[name].facts.digest
    assert again.name == name


def test_notes_are_one_line_and_shell_words_stay_words() -> None:
    for entry in ENTRIES.values():
        assert "\n" not in entry.notes + entry.origin + entry.command
        assert shlex.join(shlex.split(entry.command)) == entry.command
