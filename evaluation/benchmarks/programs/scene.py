"""What a program sees of its surroundings: a device, sizes, random inputs, and its steps."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from evaluation.benchmarks.programs.program_result import fallback_share
from evaluation.benchmarks.programs.program_specification import ProgramSpecification, Scale
from gpu_runtime.training.allocator_probe import AllocatorProbe
from gpu_runtime.training.worker_result import PeakFigures

# A tiny sequence or image is so many times shorter, and has no more of anything than this.
TINY_DIVISOR = 32
FEWEST = 4
TINY_BATCH = 2

# Untyped in PyTorch.
_make_event: Callable[..., Any] = torch.cuda.Event


class Scene:
    """The surroundings of one run; the same numbers for the same specification and rank.

    A program brackets its steps with :meth:`step` and takes :attr:`rounds` of them. After the
    warm-up peaks start again; time is taken from the end of a step to the end of the next, by the
    clock of the device, so that what lies between steps counts.
    """

    def __init__(self, specification: ProgramSpecification, probe: AllocatorProbe) -> None:
        self.specification = specification
        self.is_cuda = specification.device == "cuda"
        self.device = torch.device(specification.device, specification.rank if self.is_cuda else 0)
        self.rank, self.ranks = specification.rank, specification.ranks
        self.rounds = range(specification.warm_up + specification.timed_steps)
        # Weights are the same on every rank, inputs are not.
        torch.manual_seed(specification.seed)
        inputs_seed = specification.seed + 1 + specification.rank
        self._generator = torch.Generator().manual_seed(inputs_seed)
        # Lengths are: ranks do the same operators.
        self._lengths = random.Random(specification.seed)
        self._probe = probe
        self._taken = 0
        self._marks: list[Any] = []
        # Written to in place: a loss that is kept would be memory of ours in the program's figures.
        self._losses = torch.zeros(len(self.rounds), device=self.device)
        self.peaks: PeakFigures | None = None
        self.fallback_share: float | None = None

    @property
    def is_tiny(self) -> bool:
        """Whether a processor has to do the work."""
        return self.specification.scale is Scale.TINY

    def layers(self, full: int) -> int:
        """Return how many layers there are, of so many in full."""
        if self.is_tiny:
            return 2
        return full if self.specification.scale is Scale.FULL else max(2, full // 3)

    def wide(self, full: int, tiny: int) -> int:
        """Return a width, or a number of heads, experts or words."""
        return tiny if self.is_tiny else full

    def batch(self, full: int) -> int:
        """Return how many rows a batch has."""
        return min(full, TINY_BATCH) if self.is_tiny else full

    def length(self, full: int) -> int:
        """Return how many tokens a sequence has."""
        return max(FEWEST, full // TINY_DIVISOR) if self.is_tiny else full

    def length_between(self, least: int, most: int) -> int:
        """Return a random length."""
        return self._lengths.randint(self.length(least), self.length(most))

    def tokens(self, batch: int, length: int, words: int) -> Tensor:
        """Return random tokens on the device, (batch, length) int64."""
        return self.to_device(
            torch.randint(words, (self.batch(batch), length), generator=self._generator)
        )

    def normal(self, *shape: int) -> Tensor:
        """Return random numbers on the device, float32."""
        return self.to_device(torch.randn(shape, generator=self._generator))

    def to_device(self, host: Tensor) -> Tensor:
        """Return a copy on the device, as a loader with pinned memory makes it."""
        if self.is_cuda:
            return host.pin_memory().to(self.device, non_blocking=True)
        return host

    def autocast(self) -> AbstractContextManager[object]:
        """Return what a forward pass in bfloat16 runs in."""
        context: AbstractContextManager[object] = torch.autocast(self.device.type, torch.bfloat16)
        return context

    def adamw(self, parameters: Iterator[Parameter], rate: float = 1e-4) -> torch.optim.Optimizer:
        """Return fused AdamW."""
        return torch.optim.AdamW(parameters, lr=rate, fused=True)

    def note(self, loss: Tensor) -> None:
        """Keep the loss of this step; of several in a step, the last."""
        self._losses[min(self._taken, len(self.rounds) - 1)].copy_(loss.detach())

    @contextmanager
    def step(self) -> Iterator[None]:
        """Within this context is one training step."""
        with self._probe.step():
            yield
        self._taken += 1
        last = len(self.rounds)
        if self._taken == self.specification.warm_up:
            self._wait()
            self._probe.reset_peaks()
        if self.specification.warm_up <= self._taken <= last:
            self._marks.append(self._now())
        if self._taken == last:
            self._wait()
            self.peaks = self._probe.peaks()
            self.fallback_share = fallback_share(self._probe.plan())

    @property
    def step_seconds(self) -> tuple[float, ...]:
        """Seconds of each timed step."""
        if self.is_cuda:
            pairs = pairwise(self._marks)
            return tuple(before.elapsed_time(after) / 1e3 for before, after in pairs)
        return tuple(after - before for before, after in pairwise(self._marks))

    @property
    def losses(self) -> list[Tensor]:
        """Return the loss of every step, on the host."""
        return list(self._losses.cpu())

    def _now(self) -> Any:
        if not self.is_cuda:
            return time.perf_counter()
        event = _make_event(enable_timing=True)
        event.record()
        return event

    def _wait(self) -> None:
        if self.is_cuda:
            torch.cuda.synchronize()
