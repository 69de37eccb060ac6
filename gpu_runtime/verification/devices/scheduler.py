"""What the threads of a program wait for: arcs, delays, holds, and the word to stop.

Note: a hold ends when nothing else can go on.
Rationale: a hold is there to let others pass. If it lasted for a time, that might be over before a
loaded machine has given the others their turn, and detection would be a matter of luck.
Approach: a stream is *working* while its next node neither waits for another nor is held. When no
stream is working, only the end of a hold can change anything: the shortest one ends, and the
others go on. So holds end in the order of their lengths, each when all has run that waits for no
node still held. Under adversarial delays, at the end of the first hold the victim has been stamped,
and at the end of the second the other tensor too: then the victim is checked.
Limits: random delays are slept, and what they bring about is the system's choice.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise

from gpu_runtime.verification.trials.stamp_check_program import StampCheckProgram

# A signal that comes right before a wait does not end it, and is heard when the wait is over.
LONGEST_WAIT_SECONDS = 0.1


class StoppedError(Exception):
    """A thread was told to stop."""


class StreamScheduler:
    """Lets the threads of a program, one a stream, wait for each other through one run.

    Within :meth:`entered`, a thread calls :meth:`begin` and :meth:`end` for each node of its stream
    in turn, and between them :meth:`rest` or :meth:`hold`. All but :meth:`end` may raise
    ``StoppedError``.
    """

    def __init__(self, program: StampCheckProgram) -> None:
        # Whoever has it keeps all threads from going on.
        self.lock = threading.Lock()
        # What ended the run, if anything did; of several errors the first.
        self.error: BaseException | None = None
        self._stopped = False
        self._inside = 0
        self._unfinished = program.stream_count
        self._left = threading.Condition(self.lock)
        self._stream = program.stream
        self._wake = [threading.Condition(self.lock) for _ in range(program.stream_count)]
        self._missing = [len(awaited) for awaited in program.awaits]
        self._released_by: list[list[int]] = [[] for _ in program.stream]
        for node, awaited in enumerate(program.awaits):
            for earlier in awaited:
                self._released_by[earlier].append(node)
        queues = program.nodes_of_streams
        self._after = {node: later for queue in queues for node, later in pairwise(queue)}
        self._next: list[int | None] = [queue[0] for queue in queues]
        self._working = sum(not self._missing[queue[0]] for queue in queues)
        self._held: dict[int, float] = {}

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Count a thread among those that are to be waited for."""
        with self.lock:
            self.require_going()
            self._inside += 1
        try:
            yield
        finally:
            with self.lock:
                self._inside -= 1
                self._unfinished -= 1
                self._left.notify()

    def wait_for_end(self) -> None:
        """Return when the threads of all streams have left, or when they are to stop."""
        with self.lock:
            while self._unfinished and not self._stopped:
                self._left.wait(LONGEST_WAIT_SECONDS)

    def begin(self, node: int) -> None:
        """Wait until all that a node waits for have ended."""
        with self.lock:
            self._wait(node, lambda: not self._missing[node])

    def rest(self, node: int, seconds: float) -> None:
        """Let time pass on the thread of a node."""
        if seconds > 0:
            with self.lock:
                self._wait(node, lambda: False, seconds)

    def hold(self, node: int, length: float) -> None:
        """Hold a node until nothing else can go on but nodes that are held for longer.

        Lengths may have any unit; 0 is no hold.
        """
        if length > 0:
            with self.lock:
                self._working -= 1
                self._held[node] = length
                self._end_a_hold_if_all_stand()
                self._wait(node, lambda: node not in self._held)

    def end(self, node: int) -> None:
        """Let those go on that waited for a node, and its stream turn to the next."""
        with self.lock:
            later = self._after.get(node)
            self._next[self._stream[node]] = later
            self._working -= later is None or self._missing[later] > 0
            for waiting in self._released_by[node]:
                self._missing[waiting] -= 1
                stream = self._stream[waiting]
                if not self._missing[waiting] and self._next[stream] == waiting:
                    self._working += 1
                    self._wake[stream].notify()
            self._end_a_hold_if_all_stand()

    def stop(self, error: BaseException | None = None) -> None:
        """Tell all threads to stop, and why, where that is an error."""
        with self.lock:
            self._stopped = True
            if self.error is None:
                self.error = error
            for wake in (*self._wake, self._left):
                wake.notify()

    def wait_until_left(self) -> None:
        """Return when no thread is inside; of those that were told to stop, none comes in."""
        with self.lock:
            self._left.wait_for(lambda: not self._inside)

    def require_going(self) -> None:
        """Raise ``StoppedError`` once the threads are to end."""
        if self._stopped:
            raise StoppedError

    def _wait(self, node: int, is_over: Callable[[], bool], seconds: float | None = None) -> None:
        wake = self._wake[self._stream[node]]
        wake.wait_for(lambda: self._stopped or is_over(), seconds)
        self.require_going()

    def _end_a_hold_if_all_stand(self) -> None:
        if not self._working and self._held:
            node = min(self._held, key=lambda held: (self._held[held], held))
            del self._held[node]
            self._working += 1
            self._wake[self._stream[node]].notify()
