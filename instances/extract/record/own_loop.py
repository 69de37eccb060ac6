"""A loop of the user's own: where its steps and their phases begin, and where its trace ends.

Note: steps of a loop that nobody cut
-------------------------------------
Rationale. A script that trains does not return a step. It draws batches, updates, evaluates, and
begins again, for days.

Approach. A step ends at the first batch that is drawn after an update, so that microbatches, and
the optimizers of several networks, are parts of one step. Where nothing is drawn from a
``DataLoader``, it ends at the first forward pass after an update. An update is a call of an
optimizer, or what writes into a trained parameter after a backward pass: a hand-written update, or
an optimizer in a hook of the backward pass. Once as many steps as are traced have ended, loaders
yield nothing more, so that the program goes on to its evaluation. The next epoch ends the trace by
an exception: where the training's loader begins again, at the latest in the next backward pass. A
loader that is drawn from without backward passes, as in an evaluation, yields as many batches.

An optimizer that was made and has not updated twice, such as that of a generator whose critic is
updated more often, makes the trace longer, up to :data:`MOST_STEPS` steps. A program that makes
:data:`MOST_PASSES` passes without an update is taken to make none: each further pass is a step.

The backward pass of a step begins where PyTorch is asked for gradients, the optimizer at the first
update, and another forward pass where a module is called after a backward pass: the next
microbatch. So clipping, between the two, belongs to the backward pass. An optimizer that is given a
closure begins after it. What autograd's engine does itself, recomputation and optimizers in its
hooks among it, begins no phase. A step without an update ends with an empty phase.

Batches are drawn on the host, by the user's dataset, with real values; then fake tensors stand for
them. No other process draws any.

Limits. A program that reads one batch ahead makes one step more. Where a file has a loop without a
``DataLoader``, each update of several optimizers is a step. Without a module, a step ends at the
next backward pass. Inputs made for a later microbatch still count for the backward pass before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock
from weakref import WeakKeyDictionary, WeakSet

import torch
from torch import Tensor, optim
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils import _pytree as pytree
from torch.utils import data
from torch.utils._python_dispatch import _disable_current_modes

from instances.extract.own.own_function import EndOfTrace
from instances.extract.record.gpu.read_numbers import note
from instances.extract.record.requests.allocation_mode import AllocationMode
from instances.extract.record.requests.engine_addition import in_engine, leaves_below
from instances.traces.allocation_trace import Phase
from planners.errors import InstanceError
from planners.text.byte_units import counted

# Updates of each optimizer: the first makes its state, the second is steady.
UPDATES = 2
# Most steps that wait for those; a critic is commonly updated five times as often as its generator.
MOST_STEPS = 32
# Most passes that wait for an update; few trainings add up the gradients of more.
MOST_PASSES = 256


@dataclass
class OwnLoop:
    """Tells a recording which phase of which step of a user's loop begins, and ends it."""

    mode: AllocationMode
    fake: FakeTensorMode
    steps: int
    # False if the trace ends with the last step.
    evaluates: bool = True
    # True of a program that names no GPU: all of it is on one, but the scalars of its optimizer.
    all_on_gpu: bool = False
    on_step: Callable[[], None] = lambda: None
    # False once a step is known that the function returned, and that is run from outside.
    finds_steps: bool = True
    current: Phase | None = None
    # True while an optimizer updates; one that calls its closure again does so within.
    is_updating: bool = False
    # Steps that have ended.
    ended: int = 0
    updates: int = 0
    backward_passes: int = 0
    # The calls since the last update of each module that no other one called.
    passes: Any = field(default_factory=WeakKeyDictionary)
    calls_modules: bool = False
    # Modules that are being called.
    depth: int = 0
    # True if the step has made an update.
    is_updated: bool = False
    # The storages of the parameters that the last pass could train.
    parameters: set[int] = field(default_factory=set)
    # The updates of each optimizer of the program.
    optimizers: Any = field(default_factory=WeakKeyDictionary)
    # True if a step begins with a batch of a loader.
    draws: bool = False
    # True once the loader of the training has nothing more, until another one is begun.
    is_over: bool = False
    # The loaders whose batches had a backward pass.
    trained: WeakSet[Any] = field(default_factory=WeakSet)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Within this context loaders yield few batches, and the loop ends itself."""
        self.mode.on_write = self._written
        with ExitStack() as stack:
            for handle in (
                register_module_forward_pre_hook(self._before_module),
                register_module_forward_hook(self._after_module, always_call=True),
                register_optimizer_step_pre_hook(self._before_update),
                register_optimizer_step_post_hook(self._after_update),
            ):
                stack.callback(handle.remove)
            for owner, name, value in (
                (torch.autograd, "backward", self._told_by(torch.autograd.backward)),
                (torch.autograd, "grad", self._told_by(torch.autograd.grad)),
                (optim.Optimizer, "__init__", self._counted(optim.Optimizer.__init__)),
                (data.DataLoader, "__iter__", lambda loader: _Batches(self, loader)),
                (ThreadPoolExecutor, "submit", _at_once),
            ):
                stack.enter_context(mock.patch.object(owner, name, value))
            yield

    @property
    def notes(self) -> list[str]:
        """Notes about the traced steps, which an answer prints."""
        found, rare = [], [one for one in self.optimizers.values() if one < self._most_updates]
        if self.makes_no_update:
            found.append(f"no update in {MOST_PASSES} passes: each further pass is taken as a step")
        elif rare:
            found.append(
                f"{counted(len(rare), 'optimizer')} of {len(self.optimizers)} made fewer than "
                f"{counted(self._most_updates, 'update')} in {counted(self.ended, 'step')}: what "
                f"such a step needs may be left out; trace more by --steps"
            )
        return found

    def finish(self) -> None:
        """End the step, if one has begun."""
        self.ended += self.current is not None
        if self.current not in (None, Phase.OPTIMIZER):
            self._begin(Phase.OPTIMIZER)
        self.mode.recorder.device_is_done()
        self.current, self.is_updated = None, False

    def end_step(self) -> None:
        """End the step, if it has made an update, or if none is to be expected."""
        if self.finds_steps and (self.is_updated or self.makes_no_update):
            self.finish()
            if self.is_done and (self.makes_no_update or not self.evaluates):
                raise EndOfTrace

    def begin_step(self) -> None:
        """Begin a step, if none has begun."""
        if self.current is None:
            self.on_step()
            self._begin(Phase.FORWARD)

    @property
    def is_done(self) -> bool:
        if self.ended < self.steps:
            return False
        waits = any(updates < self._most_updates for updates in self.optimizers.values())
        return not waits or self.makes_no_update or self.ended >= max(self.steps, MOST_STEPS)

    @property
    def has_begun(self) -> bool:
        """True once a module was called or a batch was drawn."""
        return self.ended > 0 or self.current is not None

    @property
    def makes_no_update(self) -> bool:
        """True if the program is not expected to make one any more."""
        return self.finds_steps and any(count > MOST_PASSES for count in self.passes.values())

    @property
    def _most_updates(self) -> int:
        return min(UPDATES, self.steps)

    def _before_module(self, module: Any, *_: object) -> None:
        if not in_engine():
            self.calls_modules = True
            if self.depth == 0:
                self._begin_pass(module, module.training and torch.is_grad_enabled())
                trained = (one for one in module.parameters() if one.requires_grad)
                self.parameters = set(map(self.mode.storage_of, trained))
            self.depth += 1
        self._reach(Phase.FORWARD)

    def _after_module(self, *_: object) -> None:
        if not in_engine():
            self.depth = max(self.depth - 1, 0)

    def _begin_pass(self, of: Any, trains: bool) -> None:
        self.passes[of] = self.passes.get(of, 0) + 1
        if self.makes_no_update or not (self.draws or self.is_updating):
            self.end_step()
        if trains:
            self._end_if_done()
        self.begin_step()

    def _end_if_done(self) -> None:
        if self.is_done and not self.is_over:
            raise EndOfTrace

    def _told_by(self, differentiate: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **named: Any) -> Any:
            if not in_engine():
                self._end_if_done()
                if not self.calls_modules:
                    self._begin_pass(self.mode, True)
                    found = leaves_below(pytree.tree_leaves((args, named)))
                    self.parameters = set(map(self.mode.storage_of, found))
            self.backward_passes += 1
            self._reach(Phase.BACKWARD)
            return differentiate(*args, **named)

        return run

    def _counted(self, begin: Callable[..., None]) -> Callable[..., None]:
        def begin_counted(optimizer: Any, *args: Any, **named: Any) -> None:
            begin(optimizer, *args, **named)
            self.optimizers[optimizer] = 0

        return begin_counted

    def _before_update(
        self, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        given = {**dict(zip(("self", "closure"), args, strict=False)), **kwargs}
        closure = given.get("closure")
        if closure is None:
            self._begin_update()
            return None

        def run(*values: Any) -> Any:
            loss = closure(*values)
            self._begin_update()
            return loss

        return args[:1], {**kwargs, "closure": run}

    def _begin_update(self) -> None:
        self.is_updating, self.mode.default_on_gpu = True, False
        self._reach(Phase.OPTIMIZER)

    def _after_update(self, optimizer: Any, *_: object) -> None:
        self.is_updating, self.mode.default_on_gpu = False, self.all_on_gpu
        self.optimizers[optimizer] = self.optimizers.get(optimizer, 0) + 1
        self._updated()

    def _written(self, tensor: Any) -> None:
        """See an update without an optimizer: an operator writes into a parameter."""
        # A module that is called may gather its parameters.
        if self.depth or self.is_updated or self.is_updating or not self.backward_passes:
            return
        if self.mode.storage_of(tensor) in self.parameters:
            self._reach(Phase.OPTIMIZER)
            self._updated()

    def _updated(self) -> None:
        self.updates += 1
        self.is_updated = True
        self.passes.clear()

    def _reach(self, phase: Phase) -> None:
        reached = self.current in (None, phase, Phase.OPTIMIZER)
        if not (reached or in_engine()):
            self._begin(phase)

    def _begin(self, phase: Phase) -> None:
        self.current = phase
        self.mode.recorder.begin(phase)

    def on_host(self, value: Any) -> Any:
        """Return a batch with fake tensors of the host in place of real ones."""
        if isinstance(value, Tensor):
            if not isinstance(value, FakeTensor):
                value = self.fake.from_tensor(value)
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
        elif self.yielded_without >= loop.steps and (loop.is_done or not torch.is_grad_enabled()):
            raise StopIteration
        loop.begin_step()
        self.yielded_without += 1
        # A data set may hold tensors that the program made, and mix them with real ones.
        mixed = mock.patch.object(loop.fake, "allow_non_fake_inputs", True)
        with mixed, _disable_current_modes():
            try:
                batch = next(self.source)
            except StopIteration:
                # A short loader begins again if the training reads it.
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


def _at_once(_: Any, function: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
    """Stand for a pool of threads: PyTorch's modes hold in the thread that entered them alone."""
    future: Future[Any] = Future()
    try:
        future.set_result(function(*args, **named))
    except Exception as error:
        future.set_exception(error)
    return future


@contextmanager
def no_group() -> Iterator[None]:
    """Within this context a program that asks for other processes is told how to have them."""

    def refuse(*_: object, **__: object) -> None:
        raise InstanceError(
            "init_process_group: a program of several processes needs --ranks, such as --ranks 8"
        )

    with mock.patch.object(torch.distributed, "init_process_group", refuse):
        yield
