"""Runs jobs of other processes, several at the same time."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Answer = TypeVar("Answer")


def side_by_side(
    jobs: Sequence[Callable[[], Answer]], at_once: int
) -> Iterator[tuple[int, Answer]]:
    """Yield the number of each job and its answer as they end; an error of a job is raised here.

    If ``at_once`` is 1, each job runs in this thread when its answer is asked for.
    """
    if at_once == 1:
        yield from ((number, job()) for number, job in enumerate(jobs))
        return
    pending: queue.SimpleQueue[int] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[int, Answer | BaseException]] = queue.SimpleQueue()
    for number in range(len(jobs)):
        pending.put(number)

    def work() -> None:
        while True:
            try:
                number = pending.get_nowait()
            except queue.Empty:
                return
            try:
                done.put((number, jobs[number]()))
            except BaseException as error:
                done.put((number, error))

    for _ in range(at_once):
        # Daemon threads: Ctrl-C would have to wait for a pool. Workers end with their parent.
        threading.Thread(target=work, daemon=True).start()
    for _ in jobs:
        number, answer = done.get()
        if isinstance(answer, BaseException):
            raise answer
        yield number, answer
