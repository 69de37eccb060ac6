"""The command line of the benchmarks, for the tests of its pages."""

from __future__ import annotations

import sys

import pytest

from evaluation.benchmarks import __main__ as command_line


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch) -> object:
    """Run the command line in this process, which keeps its cores."""
    monkeypatch.setattr(command_line, "pin_to_one_core", lambda: None)

    def run(*arguments: object) -> int:
        monkeypatch.setattr(sys, "argv", ["benchmarks", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            command_line.main()
        return int(left.value.code or 0)

    return run
