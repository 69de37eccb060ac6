"""The surroundings of a program: a device, sizes, random inputs, and its steps."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, Parameter

from gpu_runtime.allocator.memory_report import MemoryReport
from gpu_runtime.training.allocator_probe import AllocatorProbe
from gpu_runtime.training.determinism import digests, exact
from gpu_runtime.training.driver_bytes import driver_bytes
from gpu_runtime.training.run_result import DeviceCounts, PeakFigures
from gpu_runtime.training.stream_times import StepTrace, StreamTimes, profiled_step, stream_times
from gpu_runtime.training.training_run import Purpose, Scale, TrainingRun

# A tiny run divides lengths by TINY_DIVISOR, with FEWEST as the least, and has TINY_BATCH rows.
TINY_DIVISOR = 32
FEWEST = 4
TINY_BATCH = 2

# PyTorch does not type this class.
_make_event: Callable[..., Any] = torch.cuda.Event


class Scene:
    """The surroundings of one run; the same specification and rank give the same numbers.

    A program brackets its steps with :meth:`step` and takes :attr:`rounds` of them. Peaks restart
    after the warm-up. A step is timed from the end of the step before to its own end, by the clock
    of the device, so that work between steps counts. Before the first turn and after each turn the
    program waits, with an idle device and no plan in the making.
    """

    def __init__(
        self,
        run: TrainingRun,
        probe: AllocatorProbe,
        wait_for_turn: Callable[[], None] = lambda: None,
    ) -> None:
        self.run = run
        self.is_cuda = run.device == "cuda"
        self.device = torch.device(run.device, run.rank if self.is_cuda else 0)
        self.rank, self.ranks = run.rank, run.ranks
        self.rounds = range(run.steps)
        # All ranks have the same weights and different inputs.
        torch.manual_seed(run.seed)
        inputs_seed = run.seed + 1 + run.rank
        self._generator = torch.Generator().manual_seed(inputs_seed)
        # All ranks draw the same lengths and choices, so that they run the same operators.
        self._same_on_ranks = random.Random(run.seed)
        self._probe = probe
        self._wait_for_turn = wait_for_turn
        self.taken = 0
        # Marks of step ends by turn; the first mark ends a step that is not timed.
        self._marks: list[list[Any]] = [[] for _ in range(run.turns)]
        self._traces: list[StepTrace] = []
        # Losses and gradients of each step; empty unless the run is a check.
        self.losses: list[list[str]] = []
        self.gradients: list[dict[str, str]] = []
        self._warm_up_peaks: PeakFigures | None = None
        self.peaks: PeakFigures | None = None
        self.whole_run_reserved: int | None = None
        self.counts: DeviceCounts | None = None
        self.plan: MemoryReport | None = None
        self.device_bytes: int | None = None
        self._taken_before = self._taken_bytes()

    @property
    def is_tiny(self) -> bool:
        return self.run.scale is Scale.TINY

    def layers(self, full: int) -> int:
        """Return the number of layers, of `full` in a full run."""
        if self.is_tiny:
            return 2
        return full if self.run.scale is Scale.FULL else max(2, full // 3)

    def wide(self, full: int, tiny: int) -> int:
        """Return a width, or a number of heads, experts or words."""
        return tiny if self.is_tiny else full

    def batch(self, full: int) -> int:
        """Return the rows of a batch; one row alone, as of a single list, stays one."""
        if self.run.batch is not None and full > 1:
            return self.run.batch
        return min(full, TINY_BATCH) if self.is_tiny else full

    def length(self, full: int) -> int:
        return max(FEWEST, full // TINY_DIVISOR) if self.is_tiny else full

    def length_between(self, least: int, most: int) -> int:
        return self._same_on_ranks.randint(self.length(least), self.length(most))

    def choice(self, of: int) -> int:
        """Return a random number below `of`."""
        return self._same_on_ranks.randrange(of)

    def tokens(self, batch: int, length: int, words: int) -> Tensor:
        """Return random tokens on the device, (batch, length) int64."""
        return self.to_device(
            torch.randint(words, (self.batch(batch), length), generator=self._generator)
        )

    def normal(self, *shape: int) -> Tensor:
        return self.to_device(torch.randn(shape, generator=self._generator))

    def to_device(self, host: Tensor) -> Tensor:
        """Return a copy on the device, from pinned memory as a data loader makes it."""
        if self.is_cuda:
            return host.pin_memory().to(self.device, non_blocking=True)
        return host

    def autocast(self) -> AbstractContextManager[object]:
        """Return the context of a forward pass in bfloat16."""
        context: AbstractContextManager[object] = torch.autocast(self.device.type, torch.bfloat16)
        return context

    def adamw(self, parameters: Iterator[Parameter], rate: float = 1e-4) -> torch.optim.Optimizer:
        return torch.optim.AdamW(parameters, lr=rate, fused=True)

    def exclusive_graphs(self) -> AbstractContextManager[object]:
        """Return the context of captures that never replay at the same time."""
        return self._probe.exclusive_graphs()

    def between_replays(self) -> AbstractContextManager[object]:
        """Return the context of work that runs while none of these graphs replays."""
        return self._probe.between_replays()

    @property
    def is_check(self) -> bool:
        return self.run.purpose is Purpose.CHECK

    def note(self, loss: Tensor) -> None:
        """Keep a loss of this step, if the run is a check."""
        if self.is_check:
            self.losses[-1].append(exact(loss))

    def note_gradients(self, module: Module) -> None:
        """Keep the gradients of this step before the optimizer, if the run is a check."""
        if self.is_check:
            self.gradients.append(
                digests(
                    (name, parameter.grad)
                    for name, parameter in module.named_parameters()
                    if parameter.grad is not None
                )
            )

    @contextmanager
    def step(self) -> Iterator[None]:
        self.losses.append([])
        with self._watched(), self._probed():
            yield
        self.taken += 1
        its = self.run
        if self.taken == its.warm_up:
            self._settle()
            if not self.is_check:
                self._warm_up_peaks = self._probe.peaks()
                if its.turns:
                    self._probe.reset_peaks()
                else:
                    self._keep_figures()
            self._wait_for_turn()
        elif its.warm_up < self.taken <= its.timed_until:
            turn, number = divmod(self.taken - its.warm_up - 1, 1 + its.turn_steps)
            self._marks[turn].append(self._now())
            if number == its.turn_steps:
                self._end_turn()

    @property
    def step_seconds(self) -> tuple[tuple[float, ...], ...]:
        return tuple(
            tuple(self._seconds(before, after) for before, after in pairwise(marks))
            for marks in self._marks
        )

    @property
    def streams(self) -> tuple[StreamTimes, ...]:
        """Streams of the profiled steps but the first: it is cold, and so is the profiler."""
        return stream_times(self._traces[1:])

    def _watched(self) -> AbstractContextManager[object]:
        """Return the context that notes the kernels of a step, if the step is profiled."""
        if self.is_cuda and self.rank == 0 and self.taken >= self.run.timed_until:
            return profiled_step(self._traces)
        return nullcontext()

    def _probed(self) -> AbstractContextManager[object]:
        """Return the context of a step; the first of each turn, which is not timed, has a clock."""
        in_turns = self.taken - self.run.warm_up
        is_first = in_turns >= 0 and in_turns % (1 + self.run.turn_steps) == 0
        if is_first and self.taken < self.run.timed_until and not self.is_check:
            return self._probe.timed_step()
        return self._probe.step()

    def _end_turn(self) -> None:
        self._settle()
        if self.taken == self.run.timed_until and not self.is_check:
            self._keep_figures()
        self._wait_for_turn()

    def _keep_figures(self) -> None:
        self.peaks, self.counts = self._probe.peaks(), self._probe.counts()
        self.plan = self._probe.plan()
        if self.peaks is not None and self._warm_up_peaks is not None:
            self.whole_run_reserved = max(self.peaks.reserved, self._warm_up_peaks.reserved)
        # With several turns, processes of other allocators take memory at the same time.
        if self._taken_before is not None and self.run.turns <= 1:
            self.device_bytes = (self._taken_bytes() or 0) - self._taken_before

    def _taken_bytes(self) -> int | None:
        """Return the bytes that the driver counts for this process, with its context.

        If the driver does not tell processes apart, these are the bytes of all processes.
        """
        if not self.is_cuda:
            return None
        free, total = torch.cuda.mem_get_info(self.device)  # makes the context
        of_process = driver_bytes(str(torch.cuda.get_device_properties(self.device).uuid))
        return total - free if of_process is None else of_process

    def _settle(self) -> None:
        """Wait until nothing runs that would disturb the turn of another process."""
        if self.is_cuda:
            torch.cuda.synchronize()
        self._probe.wait_for_planning()

    def _now(self) -> Any:
        if not self.is_cuda:
            return time.perf_counter()
        event = _make_event(enable_timing=True)
        event.record()
        return event

    def _seconds(self, before: Any, after: Any) -> float:
        seconds: float = before.elapsed_time(after) / 1e3 if self.is_cuda else after - before
        return seconds
