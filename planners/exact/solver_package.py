"""The package that a solver comes in: whether it is there, and its import within the time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from importlib.util import find_spec
from typing import TypeVar

from planners.errors import MissingDependencyError
from planners.model.budget import Budget

POLL_SECONDS = 0.05

Loaded = TypeVar("Loaded")


def require_package(module: str, package: str, command: str) -> None:
    """Raise where a package is missing, without the time that its import takes."""
    try:
        found = find_spec(module)
    except ImportError:
        found = None
    if found is None:
        raise MissingDependencyError(f"{package} is not installed; install it with: {command}")


def load_in_time(load: Callable[[], Loaded], package: str, budget: Budget) -> Loaded:
    """Import what a solver needs, and wait for it no longer than there is time.

    Note: an import cannot be ended, and from a cold disk it takes seconds. It runs in a thread of
    its own, which goes on where the time is over, and the next run finds the package there. The
    process waits for it at its end: taken down in the middle, an extension module aborts.
    """
    answers: list[Loaded] = []
    errors: list[Exception] = []

    def work() -> None:
        try:
            answers.append(load())
        except Exception as error:  # raised again in the thread that waits
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    while thread.is_alive() and budget.remaining_seconds() > 0:
        thread.join(min(POLL_SECONDS, budget.remaining_seconds()))
    if errors:
        raise errors[0]
    if not answers:
        raise TimeoutError(f"the time limit passed while {package} was imported")
    return answers[0]
