"""Help, version and near names: the same words on every command line, without any extra."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import evaluation
import gpu_runtime
import instances
import planners
from instances.__main__ import app as instances_app
from planners.compare.__main__ import app as compare
from planners.errors import near_names
from planners.gapless import commands
from planners.gapless import main as gapless
from tests.planners.command_line.test_command_lines import APPS
from tests.repository import ROOT
from tests.without_packages import EXTRAS, run_without

# Prints the exit status of every command and subcommand with some words behind it.
EVERY_HELP = """
import contextlib, importlib, io, json, typer
from planners.gapless import commands, main
ended = {}
def ask(*words):
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try: main([*words])
        except SystemExit as end: ended[" ".join(words)] = [end.code or 0, said.getvalue()]
        except ImportError as error: ended[" ".join(words)] = [repr(error), ""]
def walk(command, *words):
    ask(*words, "--help")
    for name, its in getattr(command, "commands", {}).items():
        walk(its, *words, name)
ask("--help")
for name, command in commands().items():
    ask(name, "--help")
    try: app = importlib.import_module(command.main.partition(":")[0]).app
    except ImportError: continue
    walk(typer.main.get_command(app), name)
ask("extract", "trace", "--help")
ask("extract", "executorch", "--help")
print(json.dumps(ended))
"""


def test_help_needs_no_extra() -> None:
    answer = run_without(EXTRAS, EVERY_HELP)
    assert answer.returncode == 0, answer.stderr
    ended = json.loads(answer.stdout)
    assert {
        "--help",
        "study report --help",
        "instances list --help",
        "extract trace --help",
    } <= set(ended)
    assert {words: said for words, (code, said) in ended.items() if code != 0} == {}
    assert all("usage" in said.lower() and "`" not in said for _, said in ended.values())
    for name in commands():
        assert f"Usage: gapless {name} " in ended[f"{name} --help"][1]


def subcommands(command: Any, *words: str) -> Iterator[tuple[str, ...]]:
    yield words
    for name, its in getattr(command, "commands", {}).items():
        yield from subcommands(its, *words, name)


EVERY = [(app, words) for app in APPS for words in subcommands(typer.main.get_command(APPS[app]))]


@pytest.mark.parametrize(("app", "words"), EVERY, ids=[" ".join([a, *w]) for a, w in EVERY])
def test_every_subcommand_knows_help_and_version(
    app: str, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answers = [CliRunner().invoke(APPS[app], [*words, word]) for word in ("--help", "-h", "help")]
    assert [answer.exit_code for answer in answers] == [0, 0, 0]
    assert len({answer.stdout for answer in answers}) == 1
    assert "--version" in answers[0].stdout
    answer = CliRunner().invoke(APPS[app], [*words, "--version"])
    assert (answer.exit_code, answer.stdout) == (0, f"gapless {planners.__version__}\n")


def test_help_that_nobody_reads_ends_as_every_answer() -> None:
    end, begin = os.pipe()
    os.close(end)
    try:
        answer = subprocess.run(
            [sys.executable, "-m", "planners.compare", "--help"],
            stdout=begin, stderr=subprocess.PIPE, check=False, cwd=ROOT,
        )  # fmt: skip
    finally:
        os.close(begin)
    assert (answer.returncode, answer.stderr) == (141, b"")


def test_help_in_front_of_a_command_is_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert "Usage: root list" in CliRunner().invoke(instances_app, ["help", "list"]).stdout
    for words in (["help"], ["help", "compare"]):
        with pytest.raises(SystemExit) as ended:
            gapless(words)
        assert not ended.value.code
    said = capsys.readouterr().out
    assert "usage: gapless COMMAND" in said
    assert "Usage: gapless compare" in said
    assert "compare" in commands()


def test_a_file_of_the_name_help_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "help").write_text("{}")
    answer = CliRunner().invoke(compare, ["help"])
    assert answer.exit_code == 2
    assert answer.stderr.startswith("error: help: ")


@pytest.mark.parametrize("package", [planners, instances, gpu_runtime, evaluation])
def test_every_package_is_typed_and_has_the_version(package: Any) -> None:
    assert package.__version__.startswith("0.")
    assert package.__version__ == planners.__version__
    assert (Path(package.__file__).parent / "py.typed").is_file()


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("naiv", "did you mean 'naive'?"),
        ("navie", "did you mean 'naive'?"),
        ("greedy-size", "did you mean 'greedy-size-best' or 'greedy-size-first'?"),
        ("size", "did you mean 'greedy-size-best' or 'greedy-size-first'?"),
        ("nose", "known: "),
        ("help", "known: "),
        ("e", "known: "),
        ("x" * 10**6, "known: "),
    ],
)
def test_only_near_names_are_offered(word: str, said: str) -> None:
    known = ("naive", "homosize", "greedy-size-first", "greedy-size-best", "pressure")
    assert near_names(word, [name for name in known if name != "homosize"]).startswith(said)


def test_an_option_like_no_other_is_offered_no_other() -> None:
    answer = CliRunner().invoke(compare, ["--zzyzx"])
    assert answer.stderr.startswith("error: No such option: --zzyzx; see ")
    answer = CliRunner().invoke(compare, ["--planer"])
    assert "--planners" in answer.stderr
