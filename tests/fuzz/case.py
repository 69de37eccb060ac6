"""One case of the fuzzer for the bindings: calls on a few objects, each told before it is made."""

from __future__ import annotations

import re
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from types import FrameType
from typing import Any

import numpy as np

from tests.fuzz.arguments import changed

# What a call may answer with, apart from a value.
REFUSALS = (TypeError, ValueError, IndexError, OverflowError, MemoryError, TimeoutError, OSError)
# The core's words for a call at the wrong time.
WRONG_TIME = re.compile(
    r"one question at a time|a step (begins|ends)|plans are adopted between|"
    r"has an allocator, whose blocks may be in use|memory disappears or is copied while a stream|"
    r"memory is paused and resumed while no graph|plain memory cannot be paused|"
    r"a pool of which no block is in use is needed"
)
# After so long a call is interrupted, which it has to notice.
INTERRUPT_SECONDS = 0.5
THREADS = 4


class UnexpectedAnswerError(AssertionError):
    """A call answered with what the docs do not know."""


class InterruptedByAlarmError(Exception):
    """The alarm rang, as Ctrl-C would."""


def _ring(_signal: int, _frame: FrameType | None) -> None:
    raise InterruptedByAlarmError


@contextmanager
def _alarm() -> Iterator[None]:
    signal.signal(signal.SIGALRM, _ring)
    signal.setitimer(signal.ITIMER_REAL, INTERRUPT_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


class Case:
    """Objects of the core and the calls on them.

    Parameters
    ----------
    rng
        Source of every choice.
    tell
        Is given every call before it is made: what ends the process is the last that it was told.
    """

    def __init__(self, rng: Random, tell: Callable[[str], None]) -> None:
        self.rng = rng
        self.calls = 0
        # How often each was answered with a value: never, where it is always called wrongly.
        self.answers: Counter[str] = Counter()
        self._tell = tell
        self._found: dict[type, list[Any]] = {}
        self._arrays: list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] = []

    def any(self, kind: type) -> Any:
        """Return an object of a class that a call has made, or None."""
        found = self._found.get(kind)
        return self.rng.choice(found) if found else None

    def call(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call with arguments that are right but for what chance changes; None for a refusal.

        Parameters
        ----------
        name
            What is called, for the report.
        function
            The binding.
        *arguments
            Right ones.

        Raises
        ------
        UnexpectedAnswerError
            The answer is neither a value nor a refusal that the docs know.
        """
        given = list(arguments)
        if given and self.rng.random() < 0.6:
            for at in self.rng.sample(
                range(len(given)), min(len(given), self.rng.choice((1, 1, 2)))
            ):
                given[at] = changed(self.rng, given[at], self._found)
        self._tell(f"{name}({', '.join(map(_shown, given))})")
        try:
            with _alarm():
                answer = self._answer(name, function, given)
        except InterruptedByAlarmError:
            return None
        self._keep(answer)
        return answer

    def together(self, name: str, function: Callable[..., Any], *arguments: Any) -> None:
        """Call from several threads at once, while another writes to the arrays."""
        self._tell(f"{THREADS} threads: {name}({', '.join(map(_shown, arguments))})")
        failures: list[BaseException] = []
        done = threading.Event()

        def ask() -> None:
            try:
                self._answer(name, function, list(arguments))
            except BaseException as error:
                failures.append(error)

        def write() -> None:
            arrays = [a for a in arguments if isinstance(a, np.ndarray) and a.size]
            while not done.wait(1e-5):
                for array in arrays:
                    array.flat[-1] += 1

        threads = [threading.Thread(target=ask) for _ in range(THREADS)]
        writer = threading.Thread(target=write)
        for thread in [*threads, writer]:
            thread.start()
        for thread in threads:
            thread.join()
        done.set()
        writer.join()
        if failures:
            raise failures[0]

    def end(self) -> None:
        """Forget all objects; what they returned has to stay as it was.

        Raises
        ------
        UnexpectedAnswerError
            An array has changed.
        """
        self._found.clear()
        for array, copy in self._arrays:
            if not np.array_equal(array, copy):
                raise UnexpectedAnswerError(f"an array changed after it was returned: {array}")

    def _answer(self, name: str, function: Callable[..., Any], given: list[Any]) -> Any:
        self.calls += 1
        self.answers[name] += 0
        try:
            answer = function(*given)
            self.answers[name] += 1
            return answer
        except REFUSALS as error:
            text = str(error)
            if not text.strip():
                raise UnexpectedAnswerError(
                    f"{name}: {type(error).__name__} says nothing"
                ) from error
            if not isinstance(error, TypeError) and ("\n" in text or len(text) > 400):
                raise UnexpectedAnswerError(f"{name}: no short line: {text[:1000]}") from error
        except RuntimeError as error:
            if not WRONG_TIME.search(str(error)):
                raise UnexpectedAnswerError(f"{name}: {error!r}") from error
        return None

    def _keep(self, answer: Any) -> None:
        for value in answer if isinstance(answer, tuple) else (answer,):
            if isinstance(value, np.ndarray):
                self._arrays.append((value, value.copy()))
            elif type(value).__module__.endswith("_core"):
                self._found.setdefault(type(value), []).append(value)


def _shown(value: object) -> str:
    if isinstance(value, np.ndarray):
        if max(value.shape, default=0) > 200:
            return f"array of {value.dtype}, shape {value.shape}"
        return f"np.array({value.tolist()}, {value.dtype!s}).reshape{value.shape}"
    return repr(value)
