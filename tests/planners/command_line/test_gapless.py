"""``gapless COMMAND``: what it offers, from here and from others, and how little it loads."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from planners.commands import ENTRY_POINT_GROUP
from planners.gapless import main
from tests.installed_package import install
from tests.test_imports import HEAVY, loaded_by

GAPLESS = Path(sys.executable).with_name("gapless")
OURS = {
    "compare", "convert", "doctor", "explain", "extract", "fit", "instances", "referee", "replay",
    "study", "train",
}  # fmt: skip


def gapless(
    *arguments: str, site: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(site or ""), **variables}
    return subprocess.run(
        [GAPLESS, *arguments],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip


def test_the_help_has_a_line_for_each() -> None:
    answer = gapless("--help")
    assert (answer.returncode, answer.stderr) == (0, "")
    listed = {line.split()[0] for line in answer.stdout.splitlines() if line.startswith("  ")}
    assert listed == OURS == set(entry_points(group=ENTRY_POINT_GROUP).names)
    assert max(map(len, answer.stdout.splitlines())) <= 90


def test_the_help_loads_nothing_heavy() -> None:
    loaded = loaded_by(
        "from planners.gapless import main\ntry: main(['--help'])\nexcept SystemExit: pass"
    )
    assert "instances" in loaded
    assert loaded & HEAVY == set()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["comprae"], "error: no command is called 'comprae'; did you mean 'compare"),
        (["--helo"], "error: no command is called '--helo'; "),
        (["compare", "--helo"], "error: No such option: --helo"),
        (["extract", "trace", "--helo"], "error: No such option: --helo"),
        (["convert", "none.json", "-o", "a.csv"], "error: none.json: the file cannot be read"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    said = capsys.readouterr()
    assert (ended.value.code, said.out) == (2, "")
    assert said.err.startswith(line)
    assert said.err.count("\n") == 1


def test_without_a_word_the_help_is_an_error() -> None:
    answer = gapless()
    assert (answer.returncode, answer.stdout) == (2, "")
    assert "  compare " in answer.stderr


def test_the_version_is_said() -> None:
    assert gapless("--version").stdout.startswith("gapless 0.")


def completions(line: str, site: Path | None = None) -> set[str]:
    """Ask as bash does for what can stand in place of the last word of a line."""
    answer = gapless(
        site=site,
        _GAPLESS_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(line.count(" ")),
    )  # fmt: skip
    assert (answer.returncode, answer.stderr) == (0, "")
    return set(answer.stdout.split())


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("gapless ", OURS),
        ("gapless help ", OURS),
        ("gapless compa", {"compare"}),
        ("gapless --s", {"--show-completion"}),
        ("gapless compare --onl", {"--online"}),
        ("gapless instances up", {"update"}),
        ("gapless instances list --t", {"--tag"}),
        ("gapless extract --opt", {"--optimizer"}),
        ("gapless unknown --v", {"--version"}),
        ("gapless --version rep", {"replay"}),
        ("gapless convert none.j", set()),
    ],
)
def test_a_shell_completes_commands_and_options(line: str, found: set[str]) -> None:
    assert completions(line) == found


def test_a_list_of_commands_for_a_shell_imports_none_of_them(tmp_path: Path) -> None:
    code = """
from planners.commands import Command
LAZY = Command("cannot be imported", "nobody_has_this:main")
"""
    install(tmp_path, "lazy_command", code, ENTRY_POINT_GROUP, "lazy = lazy_command:LAZY")
    assert completions("gapless la", tmp_path) == {"lazy"}


@pytest.mark.parametrize(("option", "said"), [
    ("--show-completion", "complete -o default -F _gapless_completion gapless"),
    ("--install-completion", "bash completion installed"),
])  # fmt: skip
def test_the_script_that_asks_for_completions(option: str, said: str, tmp_path: Path) -> None:
    answer = gapless(
        option, "bash", HOME=str(tmp_path), _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1"
    )
    assert (answer.returncode, answer.stderr) == (0, "")
    assert said in answer.stdout
    assert (tmp_path / ".bashrc").exists() == (option == "--install-completion")


def test_other_packages_offer_commands(tmp_path: Path) -> None:
    code = """
import sys
from planners.commands import Command
HELLO = Command("says hello", "hello_command:main")
def main(args, prog_name):
    print(prog_name, *args)
    sys.exit(3)
"""
    hello = ("hello = hello_command:HELLO", "compare = hello_command:HELLO")
    broken = "raise RuntimeError('broken')"
    install(tmp_path, "hello_command", code, ENTRY_POINT_GROUP, *hello)
    install(tmp_path, "broken_command", broken, ENTRY_POINT_GROUP, "broken = broken_command:X")
    install(tmp_path, "wrong_command", "X = 3", ENTRY_POINT_GROUP, "wrong = wrong_command:X")
    answer = gapless("hello", "--to", "you", site=tmp_path)
    assert (answer.returncode, answer.stdout) == (3, "gapless hello --to you\n")
    assert sorted(answer.stderr.splitlines()) == [
        "warning: command broken (broken_command:X) is left out: RuntimeError: broken",
        "warning: command compare is left out: ValueError: 'compare' is taken",
        "warning: command wrong is left out: TypeError: a planners.commands.Command is needed, "
        "found 3",
    ]  # fmt: skip
    listed = gapless("--help", site=tmp_path).stdout
    assert ["hello", "says", "hello"] in [line.split() for line in listed.splitlines()]
    assert "every planner on every instance" in listed


def test_a_command_whose_import_fails_is_one_line(tmp_path: Path) -> None:
    code = """
from planners.commands import Command
HALF = Command("is half there", "nobody_has_this:main")
"""
    install(tmp_path, "half_command", code, ENTRY_POINT_GROUP, "half = half_command:HALF")
    answer = gapless("half", site=tmp_path)
    assert answer.returncode == 2
    assert answer.stderr == ("error: No module named 'nobody_has_this'\n")
