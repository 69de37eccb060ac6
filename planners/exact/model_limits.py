"""What a model may take before its search starts: memory and time."""

from __future__ import annotations

from planners.model.budget import Budget

# A solver is told to stop this much early, and is ended when the time is over: it looks at its
# clock only between steps, and has to hand over what it has.
RESERVE_SECONDS = 0.3


class ModelTooLargeError(Exception):
    """The model would not fit; the message says how large it is and what is taken."""


def require_room(what: str, found: int, most: int) -> None:
    """Raise where a model would hold too much."""
    if found > most:
        raise ModelTooLargeError(f"the model would hold {found} {what}, and takes {most} at most")


def require_time(budget: Budget) -> None:
    """Raise where the time is over; called in the loops that build a model."""
    if budget.remaining_seconds() == 0:
        raise TimeoutError("the time limit passed while the model was built")


def solver_seconds(budget: Budget) -> float:
    """Return the time limit that a solver is told, infinite without one."""
    left = budget.remaining_seconds()
    return max(left - RESERVE_SECONDS, left / 2)
