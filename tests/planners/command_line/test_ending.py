"""An error is one line on standard error, also where standard output cannot be written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from planners import Problem, write_problem
from planners.command_line.ending import complain
from planners.command_line.starting import EXIT_ERROR


def test_an_error_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert complain(ValueError("of two\n  lines")) == EXIT_ERROR
    assert capsys.readouterr() == ("", "error: of two lines\n")


def test_an_error_is_fit_for_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    complain(ValueError("\x1b[2Jcleared\u202e " + "x" * 10**6))
    said = capsys.readouterr().err
    assert said.startswith("error: cleared xxx")
    assert said.removesuffix("\n").isprintable()
    assert len(said) < 5000


def test_without_standard_error_nothing_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert complain(ValueError("unheard")) == EXIT_ERROR
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("status", "said"), [(0, "taken down"), (2, "taken down"), (130, "")])
def test_after_a_signal_the_interpreter_is_not_taken_down(status: int, said: str) -> None:
    code = (
        "import atexit; from planners.command_line.ending import leave\n"
        f"atexit.register(print, 'taken down'); leave({status})"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout.strip()) == (status, said)


FULL, CLOSED = ">/dev/full", ">&-"
NO_SPACE = "error: standard output cannot be written: No space left on device\n"


@pytest.mark.parametrize(
    ("command", "redirection", "ended"),
    [
        ("planners.compare --list", FULL, (2, NO_SPACE)),
        ("planners.compare FILE --planners naive", FULL, (2, NO_SPACE)),
        ("gpu_runtime.replay verify FILE", FULL, (2, NO_SPACE)),
        ("instances list bert", CLOSED, (141, "")),
        ("planners.compare FILE --planners homosize", CLOSED, (141, "")),
    ],
)
def test_an_output_that_cannot_be_written_is_one_line_or_none(
    command: str, redirection: str, ended: tuple[int, str], tmp_path: Path
) -> None:
    path = tmp_path / "one.json"
    write_problem(Problem([8], [0], [1], name="one tensor"), path)
    line = f"{sys.executable} -m {command.replace('FILE', str(path))} {redirection}"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == ended


@pytest.mark.parametrize(
    ("encoding", "letters"),
    [
        ("ascii", "b\\xe4r"),
        ("utf-8", "b\u00e4r"),
    ],
)
def test_letters_that_the_output_has_not_are_escaped(
    tmp_path: Path, encoding: str, letters: str
) -> None:
    path = tmp_path / "\udcff.json"
    write_problem(Problem([8], [0], [1], name="b\u00e4r"), path)
    ended = subprocess.run(
        [sys.executable, "-m", "planners.compare", path, "--planners", "naive", "--csv"],
        capture_output=True, env={**os.environ, "PYTHONIOENCODING": encoding}, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    said = ended.stdout.decode(encoding)
    assert letters in said
    assert "\\udcff.json" in said
