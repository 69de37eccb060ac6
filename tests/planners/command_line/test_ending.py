"""An error is one line on standard error, and never on standard output."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
