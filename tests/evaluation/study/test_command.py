"""The command line: a study is run, killed, run on, and its faults are one line each."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner, Result

from evaluation.study.__main__ import app
from evaluation.study.records_file import read_records
from evaluation.study.study_file import studies
from planners import Problem, write_problem
from planners.processes import isolated_process
from tests.evaluation.study.conftest import MISBEHAVING, RESUMES
from tests.evaluation.study.test_record import RECORD
from tests.slow import one_by_one

COMMAND = [sys.executable, "-m", "evaluation.study"]
RUNS = 12


@pytest.fixture(autouse=True)
def _within_the_folder(study_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(study_folder)


def change(folder: Path, old: str, new: str) -> None:
    """Replace a part of the file of the study."""
    path = folder / "tiny.toml"
    path.write_text(path.read_text().replace(old, new))


def take_files(folder: Path) -> None:
    """Let the study run on the instance files of its folder."""
    path = folder / "tiny.toml"
    path.write_text(path.read_text().partition("family")[0] + 'files = ["*.json"]\n')


def call(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def keys(folder: Path, results: str = "results/tiny.jsonl") -> list[str]:
    return [record.run for record in read_records(folder / results)]


def lines_of(path: Path) -> Sequence[str]:
    """Return whole lines."""
    return path.read_text().rpartition("\n")[0].splitlines() if path.exists() else []


def stop(folder: Path, after: int, number: int) -> tuple[int, str]:
    """Run the study, and send a signal after so many records."""
    path = folder / "results" / "tiny.jsonl"
    process = subprocess.Popen(
        [*COMMAND, "run", "tiny.toml", "--jobs", "2"],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
    )
    while len(lines_of(path)) < after and process.poll() is None:
        try:
            process.wait(0.002)
        except subprocess.TimeoutExpired:
            continue
    process.send_signal(number)
    _, said = process.communicate()
    return process.returncode, said


def test_a_study_is_run_and_then_has_nothing_left_to_run(study_folder: Path) -> None:
    first = call("run", "tiny.toml", "--jobs", "1")
    assert (first.exit_code, first.stderr) == (0, "executes misbehaving.py\n")
    assert first.stdout == "tiny: 12 of 12 runs, 0 failed: results/tiny.jsonl\n"
    whole = (study_folder / "results" / "tiny.jsonl").read_bytes()
    again = call("run", "tiny.toml")
    assert (again.exit_code, again.stdout) == (0, first.stdout)
    assert (study_folder / "results" / "tiny.jsonl").read_bytes() == whole
    assert len(set(keys(study_folder))) == RUNS


@one_by_one("moments", [(4,), (1, 2, 5, 6, 9)], 1)
def test_killed_at_any_moment_it_goes_on_without_loss_or_repetition(
    held_study: Path, moments: tuple[int, ...]
) -> None:
    kept: list[str] = []
    for after in moments:
        code, _ = stop(held_study, after, signal.SIGKILL)
        assert code == -signal.SIGKILL
        path = held_study / "results" / "tiny.jsonl"
        whole = list(lines_of(path))
        assert whole[: len(kept)] == kept
        assert after <= len(whole) < RUNS
        kept = whole
        # As though the kill had come in the middle of a line.
        with path.open("a") as file:
            file.write(kept[0][:50])
    (held_study / "gate").touch()
    ended = call("run", "tiny.toml", "--jobs", "1")
    assert ended.stdout == "tiny: 12 of 12 runs, 0 failed: results/tiny.jsonl\n"
    assert lines_of(held_study / "results" / "tiny.jsonl")[: len(kept)] == kept
    assert len(keys(held_study)) == len(set(keys(held_study))) == RUNS


@pytest.mark.parametrize(
    ("number", "code", "line"),
    [
        (signal.SIGTERM, 143, "interrupted by SIGTERM"),
        pytest.param(signal.SIGINT, 130, "interrupted", marks=pytest.mark.slow),
    ],
)
def test_interrupted_it_keeps_its_records_and_says_how_to_go_on(
    held_study: Path, number: int, code: int, line: str
) -> None:
    returned, said = stop(held_study, RUNS - 1, number)
    assert returned == code
    assert len(keys(held_study)) == RUNS - 1
    goes_on = RESUMES
    assert said.splitlines() == ["executes misbehaving.py", goes_on, line]
    left = [path for path in Path("/proc").glob("[0-9]*/cwd") if _is(path, held_study)]
    assert left == []


def _is(link: Path, folder: Path) -> bool:
    try:
        mine = link.parent.name == str(os.getpid())
        return not mine and os.readlink(link) == str(folder)
    except OSError:
        return False


def test_without_proc_a_study_is_one_error_and_no_records(
    study_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolated_process, "ADDRESS_SPACE", study_folder / "none")
    answer = call("run", "tiny.toml", "--jobs", "1")
    assert answer.exit_code == 2
    assert "error: a limit on memory needs" in answer.stderr
    assert not (study_folder / "results").exists()


def test_only_some_runs_beside_records_of_another_machine(study_folder: Path) -> None:
    (study_folder / "r").write_text(replace(RECORD, study="tiny").to_json() + "\n")
    ended = call("run", "tiny.toml", "--only", "*tensors=8:seed=0/*, none", "-o", "r")
    assert ended.stdout == "tiny: 2 of 2 runs, 0 failed: r\n"
    shown = call("show", "tiny.toml", "--only", "*:seed=0/naive/*", "--keys")
    assert shown.stdout == (
        "random-lifetimes:tensors=8:seed=0/naive/seed=0/repetition=0\n"
        "random-lifetimes:tensors=9:seed=0/naive/seed=0/repetition=0\n"
    )
    assert "runs         12: 6 instances, 2 planners" in call("show", "tiny.toml").stdout


def test_a_run_that_fails_is_counted_and_the_rest_goes_on(study_folder: Path) -> None:
    change(study_folder, '"waits"', '"exits"')
    ended = call("run", "tiny.toml", "--only", "*seed=1/*/seed=0/*", "-o", "r.jsonl")
    assert ended.exit_code == 0
    assert ended.stdout == "tiny: 4 of 4 runs, 2 failed: r.jsonl\n"


def test_records_of_what_has_changed_are_named_and_dropped_where_asked(study_folder: Path) -> None:
    only = ("--only", "*:seed=0/naive/*", "--jobs", "1")
    call("run", "tiny.toml", *only)
    before = lines_of(study_folder / "results" / "tiny.jsonl")
    change(study_folder, "seconds = 30", "seconds = 31")
    refused = call("run", "tiny.toml", *only)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr == (
        "executes misbehaving.py\n"
        "error: results/tiny.jsonl:1: study tiny.toml has changed since 2 records, the first "
        "of random-lifetimes:tensors=8:seed=0/naive/seed=0/repetition=0; write to another file "
        "with -o, or run them again with --drop-changed\n"
    )
    assert lines_of(study_folder / "results" / "tiny.jsonl") == before
    assert call("run", "tiny.toml", *only, "--drop-changed").exit_code == 0
    after = lines_of(study_folder / "results" / "tiny.jsonl")
    assert len(after) == 2
    assert not set(after) & set(before)


def test_a_changed_plugin_drops_the_records_of_its_own_planners_alone(study_folder: Path) -> None:
    only = ("--only", "*tensors=8:seed=0/*", "--jobs", "1")
    call("run", "tiny.toml", *only)
    with (study_folder / "misbehaving.py").open("a") as plugin:
        plugin.write("# another line\n")
    again = [*COMMAND, "run", "tiny.toml", *only]
    said = subprocess.run(again, capture_output=True, text=True, check=False).stderr
    assert "tiny.jsonl:1: plugin misbehaving.py has changed since 1 record, the first of" in said
    assert "/waits/" in said
    before = set(lines_of(study_folder / "results" / "tiny.jsonl"))
    subprocess.run([*again, "--drop-changed"], capture_output=True, check=True)
    assert len(before & set(lines_of(study_folder / "results" / "tiny.jsonl"))) == 1


def test_a_changed_instance_is_named(study_folder: Path) -> None:
    take_files(study_folder)
    for size in (4, 5):
        write_problem(Problem([size], [0], [1]), study_folder / "one.json")
        said = call("run", "tiny.toml", "--jobs", "1").stderr
    assert "instance one.json has changed since 2 records" in said


def test_of_two_that_drop_records_at_once_none_loses_any(study_folder: Path) -> None:
    call("run", "tiny.toml", "--only", "*/naive/*", "--jobs", "1")
    change(study_folder, "seconds = 30", "seconds = 31")
    again = [*COMMAND, "run", "tiny.toml", "--jobs", "1", "--drop-changed"]
    runners = [
        subprocess.Popen(again, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    ended = [(*runner.communicate(), runner.returncode) for runner in runners]
    assert {0} <= {code for *_, code in ended} <= {0, 2}
    for _, said, code in ended:
        assert code == 0 or "another run of a study writes here" in said
    assert len(keys(study_folder)) == len(set(keys(study_folder))) == RUNS


def test_showing_executes_nothing_and_running_says_first_what_it_executes(
    study_folder: Path,
) -> None:
    (study_folder / "misbehaving.py").write_text("open('executed', 'w')\n" + MISBEHAVING)
    keys_shown = call("show", "tiny.toml", "--keys")
    assert "random-lifetimes:tensors=8:seed=0/waits/seed=0/repetition=0" in keys_shown.stdout
    shown = call("show", "tiny.toml").stdout
    assert "runs         12: 6 instances, 2 planners" in shown
    assert "executes     misbehaving.py; not executed here" in shown
    assert not (study_folder / "executed").exists()
    (study_folder / "misbehaving.py").write_text("raise SystemExit(3)\n")
    assert call("run", "tiny.toml").stderr.startswith("executes misbehaving.py\nerror: ")


@pytest.mark.parametrize("link", [os.symlink, os.link, None])
@pytest.mark.parametrize("name", ["tiny.toml", "misbehaving.py", "empty.json"])
def test_records_are_never_written_to_an_input(
    study_folder: Path, name: str, link: Callable[[str, str], None] | None
) -> None:
    take_files(study_folder)
    (study_folder / "empty.json").touch()
    if link is not None:
        link(name, "out")
    before = (study_folder / name).read_bytes()
    refused = call("run", "tiny.toml", "-o", f"../{study_folder.name}/{'out' if link else name}")
    assert refused.exit_code == 2
    assert f"found {name}, which this command reads" in refused.stderr
    assert (study_folder / name).read_bytes() == before


def test_control_characters_of_a_file_stay_off_the_terminal(study_folder: Path) -> None:
    change(study_folder, "Does it", "\\u001b[31m\\nDoes it")
    take_files(study_folder)
    (study_folder / "tiny.toml").rename(study_folder / "a\x1b[2J\n.toml")
    write_problem(Problem([1], [0], [1]), study_folder / "b\x1b[2J\n.json")
    for words in (("show",), ("show", "--keys"), ("run", "--jobs", "1"), ("run", "--only", "x")):
        ended = call(*words, "a\x1b[2J\n.toml")
        assert (ended.stdout + ended.stderr).replace("\n", "").isprintable()


@pytest.mark.parametrize("count", [1, 2])
def test_times_of_unlike_machines_do_not_merge(study_folder: Path, count: int) -> None:
    change(study_folder, "seconds = 30", "seconds = 30\ntimed = true")
    records = [replace(RECORD, study="tiny", run=f"run {number}") for number in range(2)]
    elsewhere = replace(RECORD.machine, cores=RECORD.machine.cores + 1)
    records[1] = replace(records[1], machine=elsewhere)
    lines = [record.to_json() + "\n" for record in records[:count]]
    (study_folder / "both.jsonl").write_text("".join(lines))
    refused = call("run", "tiny.toml", "-o", "both.jsonl")
    assert refused.exit_code == 2
    last = refused.stderr.splitlines()[-1]
    assert last.startswith(f"error: both.jsonl: its times are of {RECORD.machine}, and this is ")
    assert (str(elsewhere) in last) == (count == 2)
    assert len(lines_of(study_folder / "both.jsonl")) == count


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "regresion"), "study 'regresion': none has this name; did you mean 'regression'"),
        (("run", "none.toml"), "none.toml: the file cannot be read"),
        (("run", "tiny.toml", "--only", "x"), "--only: no run of tiny matches x"),
        (("run", "tiny.toml", "--jobs", "0"), "--jobs: at least 1 is needed, found 0"),
        (
            ("run", "tiny.toml", "--jobs", "1", "--scheduler", "tcp://localhost:1"),
            "--jobs and --scheduler: one of the two is needed, found both",
        ),
        (("run", "timed.toml", "--jobs", "4096"), "--jobs: a timed study runs at most one run a"),
        (("run", "tiny.toml", "-o", "other.jsonl"), "a record of the study tiny is needed"),
        (("run", "tiny.toml", "-o", "twice.jsonl"), "each run is recorded once"),
        (("run", "tiny.toml", "-o", "wrong.jsonl"), "wrong.jsonl:1: the line is not a whole JSON"),
        (("run", "tiny.toml", "-o", "."), "--output .: a file is needed, found a folder"),
    ],
)
def test_a_mistake_is_one_line(study_folder: Path, words: tuple[str, ...], message: str) -> None:
    text = (study_folder / "tiny.toml").read_text()
    (study_folder / "timed.toml").write_text("timed = true\n" + text)
    line = replace(RECORD, study="tiny").to_json() + "\n"
    (study_folder / "other.jsonl").write_text(RECORD.to_json() + "\n")
    (study_folder / "twice.jsonl").write_text(line + line)
    (study_folder / "wrong.jsonl").write_text("not JSON\n")
    ended = call(*words)
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr.splitlines()[-1].startswith("error: ")
    assert message in ended.stderr.splitlines()[-1]


def test_the_studies_that_ship_are_listed() -> None:
    ended = call("list")
    assert ended.exit_code == 0
    lines = ended.stdout.splitlines()
    names = [line.split()[0] for line in lines if line[0] != " "]
    assert names == list(studies())
    asked = next(line for line in lines if line.startswith("regression"))
    age = lines[lines.index(asked) + 1].strip()
    assert asked.split(maxsplit=1)[1] == "Is any plan worse than it was?"
    assert re.match(r"records of 20\d\d-\d\d-\d\d, commit [0-9a-f]{12}(\+changes)?(;|$)", age)
