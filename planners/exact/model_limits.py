"""The memory and time that a model may take before its search starts."""

from __future__ import annotations

from planners.model.budget import Budget

# Seconds before the time limit at which a solver is told to stop: it checks its clock only between
# steps, and needs time to return its solution. At the limit it is ended. A guess.
RESERVE_SECONDS = 0.3


class ModelTooLargeError(Exception):
    """The model is too large; the message gives its size and the limit."""


def require_room(what: str, found: int, most: int) -> None:
    """Raise ``ModelTooLargeError`` if a model would hold too much."""
    if found > most:
        raise ModelTooLargeError(f"the model would hold {found} {what}, and takes {most} at most")


def require_time(budget: Budget) -> None:
    """Raise ``TimeoutError`` if the time is over; called in the loops that build a model."""
    if budget.remaining_seconds() == 0:
        raise TimeoutError("the time limit passed while the model was built")


def solver_seconds(budget: Budget) -> float:
    """Return the time limit to give to a solver; infinite if there is none."""
    left = budget.remaining_seconds()
    return max(left - RESERVE_SECONDS, left / 2)
