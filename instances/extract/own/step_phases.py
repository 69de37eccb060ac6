"""The phases of a user's step, recognised by its calls to PyTorch.

Note: how phases are found in any loop
--------------------------------------
Rationale. A trace says when forward passes, backward passes and the optimizer begin. Our own loop
says so; a user's loop has no words for it, and should need none.

Approach. A step begins with its forward pass. The backward pass begins where PyTorch is asked for
gradients, the optimizer where the first one is asked for its update, and another forward pass
where a module is called after a backward pass: the next microbatch. So clipping, between the two,
belongs to the backward pass. An optimizer that is given a closure begins after it. What autograd's
engine does itself, recomputation and optimizers in its hooks among it, begins no phase.

Limits. From the first update on all belongs to the optimizer, until the step ends: a step with
several optimizers, as of a network and its critic, is one iteration. A step without any ends with
an empty phase. Inputs made for a later microbatch still count for the backward pass before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from instances.extract.eager.allocation_mode import AllocationMode
from instances.extract.eager.engine_addition import in_engine
from instances.traces.allocation_trace import Phase


@dataclass
class StepPhases:
    """Tells a recording which phase of a step begins."""

    mode: AllocationMode
    current: Phase | None = None
    # True while an optimizer updates; one that calls its closure again does so within.
    is_updating: bool = False
    # True of a program that names no GPU: all of it is on one, but the scalars of its optimizer.
    all_on_gpu: bool = False

    @contextmanager
    def step(self) -> Iterator[None]:
        """Within this context one step runs."""
        self._begin(Phase.FORWARD)
        yield
        self.finish()

    @contextmanager
    def told(self) -> Iterator[None]:
        """Within this context PyTorch tells of phases."""
        with ExitStack() as stack:
            for name in ("backward", "grad"):
                told = self._told_by(getattr(torch.autograd, name))
                stack.enter_context(mock.patch.object(torch.autograd, name, told))
            for handle in (
                register_module_forward_pre_hook(self._before_module),
                register_optimizer_step_pre_hook(self._before_update),
                register_optimizer_step_post_hook(self._after_update),
            ):
                stack.callback(handle.remove)
            yield

    def finish(self) -> None:
        """End the step."""
        if self.current not in (None, Phase.OPTIMIZER):
            self._begin(Phase.OPTIMIZER)
        self.mode.recorder.device_is_done()

    def _told_by(self, differentiate: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            self._reach(Phase.BACKWARD)
            return differentiate(*args, **kwargs)

        return run

    def _before_module(self, *_: object) -> None:
        self._reach(Phase.FORWARD)

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

    def _after_update(self, _optimizer: Any, /, *_: object) -> None:
        self.is_updating, self.mode.default_on_gpu = False, self.all_on_gpu

    def _reach(self, phase: Phase) -> None:
        reached = self.current in (None, phase, Phase.OPTIMIZER)
        if not (reached or in_engine()):
            self._begin(phase)

    def _begin(self, phase: Phase) -> None:
        self.current = phase
        self.mode.recorder.begin(phase)
