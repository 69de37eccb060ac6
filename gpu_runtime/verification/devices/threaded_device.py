"""The CPU as a device: real memory, and one thread a stream."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from itertools import chain

from gpu_runtime.verification.devices.device import DeviceOutcome
from gpu_runtime.verification.devices.host_arena import HostArena, WrongWords
from gpu_runtime.verification.devices.scheduler import StoppedError, StreamScheduler
from gpu_runtime.verification.trials.arena_layout import Layout
from gpu_runtime.verification.trials.stamp_check_program import StampCheckProgram
from gpu_runtime.verification.trials.trial import Disturbance, Trial
from planners.errors import DeviceError

# Shorter delays would vanish in the time that a woken thread needs to run; a guess.
SHORTEST_LAP_SECONDS = 0.5e-3


class ThreadedDevice:
    """A device in host memory, whose streams are threads.

    Nodes of a stream run in order, and wait only for the nodes of other streams that the program
    names. Several streams stamp and check at the same time, in the same bytes if the layout says
    so. The delays of a random trial are slept, in laps of the last undisturbed trial. Adversarial
    delays are holds until nothing else can go on.
    """

    def __init__(self, program: StampCheckProgram, layout: Layout) -> None:
        self._program = program
        self._arena = HostArena(layout)
        self._lap_seconds = SHORTEST_LAP_SECONDS
        self.figures = self._arena.figures("CPU, one thread a stream", program)

    def run(self, trial: Trial) -> DeviceOutcome:
        """Run the whole program once, or until Ctrl-C, which keeps the findings so far.

        An undisturbed trial also measures a lap.
        """
        scheduler = StreamScheduler(self._program)
        found = [WrongWords() for _ in range(self._program.stream_count)]
        threads = [
            threading.Thread(
                target=self._run_stream,
                args=(nodes, trial, scheduler, its),
                name=f"stream {stream}",
            )
            for stream, (nodes, its) in enumerate(
                zip(self._program.nodes_of_streams, found, strict=True)
            )
        ]
        begun = time.perf_counter()
        interrupted = _run_all(threads, scheduler)
        seconds = time.perf_counter() - begun
        if scheduler.error is not None:
            raise scheduler.error
        if trial.disturbance is Disturbance.NONE:
            self._lap_seconds = max(seconds, SHORTEST_LAP_SECONDS)
        return DeviceOutcome(
            seconds,
            list(chain.from_iterable(its.foreign for its in found)),
            list(chain.from_iterable(its.broken for its in found)),
            interrupted=interrupted,
        )

    def close(self) -> None:
        self._arena.close()

    def _run_stream(
        self, nodes: Sequence[int], trial: Trial, scheduler: StreamScheduler, found: WrongWords
    ) -> None:
        """Run the nodes of a stream in order, on the thread of the stream."""
        try:
            with scheduler.entered():
                for node in nodes:
                    self._run_node(node, trial, scheduler, found)
        except StoppedError:
            pass
        except BaseException as error:
            scheduler.stop(error)

    def _run_node(
        self, node: int, trial: Trial, scheduler: StreamScheduler, found: WrongWords
    ) -> None:
        scheduler.begin(node)
        self._delay(node, trial.before[node], trial, scheduler)
        for tensor in self._program.stamps[node]:
            scheduler.require_going()
            self._arena.stamp(tensor, trial.key)
        self._delay(node, trial.within[node], trial, scheduler)
        for tensor in self._program.checks[node]:
            scheduler.require_going()
            self._arena.check(tensor, trial.key, found)
        scheduler.end(node)

    def _delay(self, node: int, laps: float, trial: Trial, scheduler: StreamScheduler) -> None:
        if trial.is_directed:
            scheduler.hold(node, laps)
        else:
            scheduler.rest(node, laps * self._lap_seconds)


def _run_all(threads: Sequence[threading.Thread], scheduler: StreamScheduler) -> bool:
    """Start threads and wait for them; return True if Ctrl-C ended them."""
    try:
        # The lock keeps each thread waiting until the last one has started.
        with scheduler.lock:
            for count, thread in enumerate(threads):
                _start(thread, f"{count + 1} of {len(threads)}")
        # A join that Ctrl-C interrupts takes its thread for ended (Python 3.11), so it is not used
        # here.
        scheduler.wait_for_end()
        return False
    except KeyboardInterrupt:
        return True
    finally:
        scheduler.stop()
        scheduler.wait_until_left()
        for thread in threads:
            if thread.ident is not None:
                thread.join()


def _start(thread: threading.Thread, which: str) -> None:
    try:
        thread.start()
    except RuntimeError as error:
        raise DeviceError(
            f"one thread a stream is needed, found none for stream {which}: {error}; "
            f"--device simulated needs no threads"
        ) from None
