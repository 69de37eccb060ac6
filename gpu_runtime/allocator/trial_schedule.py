"""Says after which steps books are tried, and when a book that costs too much goes."""

from __future__ import annotations

# Most steps between two trials. A guess.
LONGEST_WAIT = 64
# A book goes after this many costly trials, so that one odd step does not end it. With 2, a program
# that accumulates gradients lost a book that the next trial would have replaced.
MOST_COSTLY_TRIALS = 3


class TrialSchedule:
    """Counts the steps between two trials, and the costly trials of the book in force.

    A trial that changes nothing doubles the steps until the next one. A step that goes as planned
    takes back one step of the wait, and one costly trial.
    """

    def __init__(self) -> None:
        self._step = self._tried_at = 0
        self._wait = 1
        self._costly_trials = 0

    @property
    def is_due(self) -> bool:
        """Return True if the steps since the last trial are enough for another one."""
        return self._step >= self._tried_at + self._wait

    def end_step(self, *, as_planned: bool) -> None:
        """Note the end of a step."""
        self._step += 1
        if as_planned:
            self._wait = max(self._wait - 1, 1)
            self._costly_trials = max(self._costly_trials - 1, 0)

    def begin_trial(self) -> None:
        """Note that books are tried after this step."""
        self._tried_at = self._step

    def again(self) -> None:
        """Note that a trial was interrupted, and is due once more."""
        self._tried_at = self._step - self._wait

    def is_last(self, *, is_costly: bool) -> bool:
        """Take a trial of the book in force; return True if the book was costly too often."""
        self._costly_trials += is_costly
        return self._costly_trials >= MOST_COSTLY_TRIALS

    def end_trial(self, *, is_next_soon: bool) -> None:
        """Note the end of a trial; the next one may follow at once, or after a longer wait."""
        self._wait = 1 if is_next_soon else min(2 * self._wait, LONGEST_WAIT)

    def begin_book(self) -> None:
        """Note that another book is in force, or none."""
        self._costly_trials = 0
