"""A loop of the user's own: where its steps begin, and where its trace ends.

Note: steps of a loop that nobody cut
-------------------------------------
Rationale. A script that trains does not return a step. It draws batches, updates, evaluates, and
begins again, for days.

Approach. A step ends at the first batch that is drawn after an update, so that microbatches, and
the optimizers of several networks, are parts of one step. Where nothing is drawn from a
``DataLoader``, it ends at the first forward pass after an update. Once as many steps as are traced
have ended, loaders yield nothing more, so that the program goes on to its evaluation. The next
epoch ends the trace by an exception: where the training's loader begins again, at the latest in
the next backward pass. A loader that is drawn from without backward passes,
as in an evaluation, yields as many batches.

Batches are drawn on the host, by the user's dataset, with real values; then fake tensors stand for
them. No other process draws any.

Limits. A program that reads one batch ahead makes one step more. Where a file has a loop without a
``DataLoader``, each update of several optimizers is a step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock
from weakref import WeakSet

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils import data
from torch.utils._python_dispatch import _disable_current_modes

from instances.extract.eager.engine_addition import in_engine
from instances.extract.own.own_function import EndOfTrace
from instances.extract.own.read_numbers import note
from instances.extract.own.step_phases import StepPhases
from instances.traces.allocation_trace import Phase
from planners.errors import InstanceError


@dataclass
class OwnLoop(StepPhases):
    """Tells a recording which phase of which step of a user's loop begins, and ends it."""

    fake: FakeTensorMode | None = None
    steps: int = 0
    # False if the trace ends with the last step.
    evaluates: bool = True
    on_step: Callable[[], None] = lambda: None
    # False once a step is known that the function returned, and that is run from outside.
    finds_steps: bool = True
    # Steps that have ended.
    ended: int = 0
    updates: int = 0
    backward_passes: int = 0
    # True if a step begins with a batch of a loader.
    draws: bool = False
    # True once the loader of the training has nothing more, until another one is begun.
    is_over: bool = False
    # The loaders whose batches had a backward pass.
    trained: WeakSet[Any] = field(default_factory=WeakSet)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Within this context loaders yield few batches, and the loop ends itself."""
        with ExitStack() as stack:
            stack.enter_context(self.told())
            for owner, name, value in (
                (data.DataLoader, "__iter__", lambda loader: _Batches(self, loader)),
                (data, "random_split", _for_real(data.random_split)),
            ):
                stack.enter_context(mock.patch.object(owner, name, value))
            yield

    def finish(self) -> None:
        """End the last step."""
        self._end()
        self.mode.recorder.device_is_done()

    def end_step(self) -> None:
        """End the step, if it has made an update."""
        if self.finds_steps and self.current is Phase.OPTIMIZER:
            self.ended += 1
            self.current = None
            self.mode.recorder.device_is_done()
            if self.is_done and not self.evaluates:
                raise EndOfTrace

    def begin_step(self) -> None:
        """Begin a step, if none has begun."""
        if self.finds_steps and self.current is None:
            self.on_step()
            self._begin(Phase.FORWARD)

    @property
    def is_done(self) -> bool:
        return self.ended >= self.steps

    def _before_module(self, module: Any = None, *_: object) -> None:
        if not in_engine():
            if not (self.draws or self.is_updating):
                self.end_step()
            if self.is_done and module.training and torch.is_grad_enabled():
                self._end_trace()
            self.begin_step()
        super()._before_module()

    def _end_trace(self) -> None:
        if not self.is_over:
            raise EndOfTrace

    def _told_by(self, differentiate: Callable[..., Any]) -> Callable[..., Any]:
        told = super()._told_by(differentiate)

        def run(*args: Any, **named: Any) -> Any:
            if self.is_done:
                self._end_trace()
            self.backward_passes += 1
            return told(*args, **named)

        return run

    def _after_update(self, *_: object) -> None:
        super()._after_update()
        self.updates += 1

    def on_host(self, value: Any) -> Any:
        """Return a batch with fake tensors of the host in place of real ones."""
        if isinstance(value, Tensor):
            if not isinstance(value, FakeTensor):
                assert self.fake is not None
                value = self.fake.from_tensor(value)
            self.mode.keep_on_host([value])
        elif isinstance(value, MutableMapping):
            for key in list(value):
                value[key] = self.on_host(value[key])
        elif isinstance(value, list):
            value[:] = map(self.on_host, value)
        elif isinstance(value, tuple):
            parts = map(self.on_host, value)
            value = type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        elif hasattr(value, "__dict__") and not isinstance(value, type):
            for key, part in list(vars(value).items()):
                vars(value)[key] = self.on_host(part)
        return value


class _Batches:
    """The first batches of a user's loader."""

    def __init__(self, loop: OwnLoop, loader: Any) -> None:
        self.loop, self.loader = loop, loader
        self.updates, self.passes = loop.updates, loop.backward_passes
        self.is_new, self.yielded_without = True, 0
        loop.is_over = False
        self.source = self._begun()

    def __iter__(self) -> _Batches:
        return self

    def __len__(self) -> int:
        return len(self.loader)

    def __next__(self) -> Any:
        """Return the next batch, of fake tensors of the host."""
        loop = self.loop
        loop.draws = True
        loop.end_step()
        if loop.is_done and self.is_new and torch.is_grad_enabled() and self.loader in loop.trained:
            raise EndOfTrace
        self.is_new = False
        if self.passes != loop.backward_passes:
            self.passes, self.yielded_without = loop.backward_passes, 0
            loop.trained.add(self.loader)
            if loop.is_done:
                loop.is_over = True
                raise StopIteration
        elif self.yielded_without >= loop.steps and loop.is_done:
            raise StopIteration
        loop.begin_step()
        self.yielded_without += 1
        with _disable_current_modes():
            try:
                batch = next(self.source)
            except StopIteration:
                # A short loader begins again, unless it is no training's.
                if self.updates == loop.updates:
                    raise
                self.source = self._begun()
                batch = next(self.source)
        return loop.on_host(batch)

    def _begun(self) -> Iterator[Any]:
        loader = self.loader
        for name, value in (("num_workers", 0), ("timeout", 0), ("pin_memory", False)):
            setattr(loader, name, value)
        loader.prefetch_factor = None
        wanted, data_set = loader.batch_size, loader.dataset
        if wanted and hasattr(data_set, "__len__") and len(data_set) < wanted:
            note(f"the loader asks for {wanted:,} items, and its data set has {len(data_set):,}")
        with _disable_current_modes():
            return iter(data.dataloader._SingleProcessDataLoaderIter(loader))


def _for_real(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **named: Any) -> Any:
        with _disable_current_modes():
            return function(*args, **named)

    return run


@contextmanager
def no_group() -> Iterator[None]:
    """Within this context a program that asks for other processes is told how to have them."""

    def refuse(*_: object, **__: object) -> None:
        raise InstanceError(
            "init_process_group: a program of several processes needs --ranks, such as --ranks 8"
        )

    with mock.patch.object(torch.distributed, "init_process_group", refuse):
        yield
