"""Command lines run in the process of the tests."""

from __future__ import annotations

from typer.testing import CliRunner, Result

from planners.command_line.typer_frame import CommandLine


def run_command(app: CommandLine, *arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def require_one_line(result: Result, message: str) -> None:
    """A mistake ends with 2 and is told in one line."""
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
