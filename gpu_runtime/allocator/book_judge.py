"""Judges from recent steps if a book of plans serves a program."""

from __future__ import annotations

from collections import deque

# A step is unlike the book where this share of its bytes lies at no place of it.
UNLIKE_SHARE = 0.1
# Of so many steps in a row, so many unlike ones are too many; and so many once a book was dropped.
JUDGED_STEPS = 12
TOO_MANY = 8
TOO_MANY_AGAIN = 4
# And so many in which memory was taken for what found no place.
TOO_MANY_WASTEFUL = 4
# An arena, and what lies beside it, that are more than this part and so many bytes above the peak
# of what ever lived are for the largest of each request, which never come together.
MOST_ABOVE_LIVE = 0.06
LEAST_ABOVE_LIVE = 64 << 20
# Steps until a program is planned again, the first time; each time twice as many.
FIRST_PAUSE = 16
LONGEST_PAUSE = 1 << 14
# Of so many steps, half have to be of kinds that were seen before.
RECENT_STEPS = 4


class BookJudge:
    """Follows how the steps of a program are served.

    Note: irregular programs
    ------------------------
    Rationale. Where sizes and numbers of requests are of the moment, now and then two steps are
    alike by chance. Their plan has an arena for all of them, and the steps that are not of it need
    as much memory again, outside of the arena. Without a book all memory is one heap, which stays
    within a share of what lives by itself.

    Approach. A program is planned while half of its last few steps are of kinds that were seen
    before. A book goes where most of a dozen steps were unlike it, or where its arena is larger
    than what ever lived: then the sizes of a kind are of the moment, although their number is not.
    It goes sooner where what has no place takes more memory than ever lived, as with two lengths
    that have nothing to do with each other. No other is made for a while, longer each
    time, and that one has to serve better to stay.

    Limits. A program that changes for good is unlike its book for a few steps only, until the next
    book, and is not judged by them.
    """

    def __init__(self) -> None:
        self._known: deque[bool] = deque(maxlen=RECENT_STEPS)
        self._unlike: deque[bool] = deque(maxlen=JUDGED_STEPS)
        self._wasteful: deque[bool] = deque(maxlen=JUDGED_STEPS)
        self._fallback_bytes = self._step_bytes = 0
        self._pause = FIRST_PAUSE
        self._pause_left = 0
        self._too_many = TOO_MANY

    def saw(
        self,
        *,
        is_known: bool,
        fallback_bytes: int,
        step_bytes: int,
        is_wasteful: bool = False,
        is_outdated: bool = False,
    ) -> None:
        """Take a step.

        Whether it was of a kind that was seen before; the bytes of all steps so far, those that lay
        at no place of the book, and all; whether more is reserved than :meth:`is_little_above`; and
        whether another book waits to take the place of this one, which is then not to blame.
        """
        fallback, asked = fallback_bytes - self._fallback_bytes, step_bytes - self._step_bytes
        self._fallback_bytes, self._step_bytes = fallback_bytes, step_bytes
        self._known.append(is_known)
        self._unlike.append(not is_outdated and fallback > UNLIKE_SHARE * asked)
        self._wasteful.append(not is_outdated and is_wasteful and fallback > 0)
        self._pause_left = max(self._pause_left - 1, 0)

    def reset_counts(self) -> None:
        """Say that the bytes of all steps are counted from now."""
        self._fallback_bytes = self._step_bytes = 0

    @property
    def may_plan(self) -> bool:
        """Return True if a book is likely to serve the steps to come."""
        if self._pause_left or not self._known:
            return False
        if len(self._known) < RECENT_STEPS:
            return self._known[-1]
        return 2 * sum(self._known) >= RECENT_STEPS

    @property
    def is_in_the_way(self) -> bool:
        """Return True if the book in force serves the program too badly."""
        return sum(self._unlike) >= self._too_many or sum(self._wasteful) >= TOO_MANY_WASTEFUL

    @staticmethod
    def is_little_above(reserved_bytes: int, live_peak: int) -> bool:
        """Return True if memory is little more than has lived at one time."""
        return reserved_bytes - live_peak <= max(MOST_ABOVE_LIVE * live_peak, LEAST_ABOVE_LIVE)

    def pause(self) -> None:
        """Say that the book was dropped."""
        self._unlike.clear()
        self._wasteful.clear()
        self._pause_left = self._pause
        self._too_many = TOO_MANY_AGAIN
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
