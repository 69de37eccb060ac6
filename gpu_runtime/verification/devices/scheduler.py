"""The waits of a program's threads: for arcs, delays and holds, and until they are stopped.

Note: a hold ends when nothing else can go on.
Rationale: a hold is there to let other nodes pass. If a hold lasted for a fixed time, that time
might be over before a loaded machine has run the others, and detection would depend on luck.
Approach: a stream is *working* while its next node neither waits for another nor is held. When no
stream is working, only the end of a hold can change anything: the shortest hold ends, and the
others go on. So holds end in the order of their lengths, each when every node has run that does
not wait for a held node. Under adversarial delays the victim has been stamped at the end of the
first hold, and the other tensor at the end of the second: then the victim is checked.
Limits: random delays are slept, and the operating system chooses their effect.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise

from gpu_runtime.verification.trials.stamp_check_program import StampCheckProgram

# A signal that comes just before a wait does not end the wait; it is handled after it.
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
        # A thread that holds this lock keeps all others from going on.
        self.lock = threading.Lock()
        # The first error that ended the run, if any.
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
        """Count a thread among those that the end of the run waits for."""
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
        """Wait until the nodes that a node waits for have ended."""
        with self.lock:
            self._wait(node, lambda: not self._missing[node])

    def rest(self, node: int, seconds: float) -> None:
        """Let some seconds pass on the thread of a node."""
        if seconds > 0:
            with self.lock:
                self._wait(node, lambda: False, seconds)

    def hold(self, node: int, length: float) -> None:
        """Hold a node until only nodes with longer holds could go on.

        Lengths may have any unit; 0 means no hold.
        """
        if length > 0:
            with self.lock:
                self._working -= 1
                self._held[node] = length
                self._end_a_hold_if_all_stand()
                self._wait(node, lambda: node not in self._held)

    def end(self, node: int) -> None:
        """Wake the streams that waited for a node, and let its own stream turn to the next node."""
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
        """Tell all threads to stop, and keep the error that is the reason, if any."""
        with self.lock:
            self._stopped = True
            if self.error is None:
                self.error = error
            for wake in (*self._wake, self._left):
                wake.notify()

    def wait_until_left(self) -> None:
        """Return when no thread is inside; a stopped thread does not come in again."""
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
