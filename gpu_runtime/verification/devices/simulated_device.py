"""The CPU as a device: real memory, streams on a simulated clock.

Note: a clock in place of threads.
Rationale: threads leave the order of things to the operating system. Here a delay of a trial is a
delay on a clock, every order that the arcs allow can be had, and the same seed gives the same order
again.
Limits: nodes begin and end one after the other, so two nodes never write at the very same moment;
``threaded_device`` lets them.
"""

from __future__ import annotations

import time

from gpu_runtime.verification.devices.device import DeviceOutcome
from gpu_runtime.verification.devices.execution_order import execution_order
from gpu_runtime.verification.devices.host_arena import HostArena, WrongWords
from gpu_runtime.verification.trials.arena_layout import Layout
from gpu_runtime.verification.trials.stamp_check_program import StampCheckProgram
from gpu_runtime.verification.trials.trial import Trial


class SimulatedDevice:
    """A device in host memory, whose streams are a simulation."""

    def __init__(self, program: StampCheckProgram, layout: Layout) -> None:
        self._program = program
        self._arena = HostArena(layout)
        self.figures = self._arena.figures("CPU, simulated streams", program)

    def run(self, trial: Trial) -> DeviceOutcome:
        """Run the whole program once, or until Ctrl-C; what was found until then is told."""
        found, interrupted = WrongWords(), False
        begun = time.perf_counter()
        try:
            for node, ends in execution_order(self._program, trial):
                if ends:
                    for tensor in self._program.checks[node]:
                        self._arena.check(tensor, trial.key, found)
                else:
                    for tensor in self._program.stamps[node]:
                        self._arena.stamp(tensor, trial.key)
        except KeyboardInterrupt:
            interrupted = True
        seconds = time.perf_counter() - begun
        return DeviceOutcome(seconds, found.foreign, found.broken, interrupted=interrupted)

    def close(self) -> None:
        """Give the arena back."""
        self._arena.close()
