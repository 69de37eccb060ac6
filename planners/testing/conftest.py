"""Options of the tests, and a list of the answers `unsupported`."""

from __future__ import annotations

import pytest

from planners import registry
from planners.errors import GaplessError
from planners.testing.contract import UNSUPPORTED


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--planner", action="append", help="a planner to test; may be repeated")
    parser.addoption("--plugin", action="append", default=[], help="a file that registers some")


def pytest_configure(config: pytest.Config) -> None:
    try:
        for path in config.getoption("--plugin"):
            registry.load_plugin(path)
        for name in config.getoption("--planner") or []:
            registry.get(name)
    except GaplessError as error:
        raise pytest.UsageError(str(error)) from None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not terminalreporter.config.getoption("--planner"):
        return
    terminalreporter.section("not supported")
    for (name, reason), count in sorted(UNSUPPORTED.items()):
        terminalreporter.line(f"{name}: {reason} ({count} problems)")
