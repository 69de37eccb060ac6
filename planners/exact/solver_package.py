"""A solver's package: is it installed, and import it within the time limit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from importlib.util import find_spec
from typing import TypeVar

from planners.errors import MissingDependencyError
from planners.model.budget import Budget

# Seconds between two looks whether an import has ended. A guess.
POLL_SECONDS = 0.05

Loaded = TypeVar("Loaded")


def require_package(module: str, package: str, command: str) -> None:
    """Raise ``MissingDependencyError`` if a package is missing, without the cost of its import."""
    try:
        found = find_spec(module)
    except ImportError:
        found = None
    if found is None:
        raise MissingDependencyError(f"{package} is not installed; install it with: {command}")


def load_in_time(load: Callable[[], Loaded], package: str, budget: Budget) -> Loaded:
    """Import a solver's package, waiting no longer than the budget's time.

    Note: an import cannot be interrupted, and from a cold disk it takes seconds. It runs in a
    thread of its own. If the time is over the thread continues, and the next run finds the package
    imported. The process waits for the thread at its end, because an extension module aborts if it
    is torn down in the middle.
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
