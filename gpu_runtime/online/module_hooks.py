"""Tells STWeaver where a PyTorch program is, by hooks on its modules and optimizers.

Note: iterations and phases
---------------------------
Rationale. A profile knows requests by module, phase and iteration, and a user's loop has no words
for them.

Approach. An iteration begins with the first module call after an optimizer's update. A phase begins
with a module call, a backward pass or an update, if the phase before is of another kind. Modules
that the engine of the backward pass runs, for recomputation, begin none, nor does what a graph
captures.

Limits. What runs between an update and the next module call belongs to the iteration before. A step
of several optimizers with forward passes in between counts as several iterations.

Note: what hooks cost
---------------------
Rationale. A step of many short kernels waits for the host. Hooks on every module, as a profile
needs them, made it 14 to 40 % slower.

Approach. Every module has hooks in the profiled iterations only. A plan says which modules it tells
apart: in a program of static requests none. These keep hooks of their own, and so does each
outermost module, whose call begins a forward phase. Without a plan no hook stays. A forward
pass tells a number to the core. Its end puts a hook on the node of the backward pass that takes the
gradient of the module's output, and on the node that takes the gradient of its input. Such a hook
costs a third of one by `register_multi_grad_hook`, and calls the core without Python code between.

Limits. A module that first runs after the profile has no hooks: its requests count for the module
around it. A module without an input by position that needs a gradient is left with the module
around it. A trace by `ModTracker` leaves such a module at the end of the backward pass.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any
from unittest import mock
from weakref import WeakKeyDictionary, WeakSet

import torch
from torch import Tensor
from torch.nn import Module
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.optim.optimizer import register_optimizer_step_pre_hook

from gpu_runtime.online.stweaver_program import PLANNING_ITERATION, StweaverProgram

FORWARD, BACKWARD, UPDATE = "forward", "backward", "update"


class ModuleHooks:
    """Hooks that stay until :meth:`close`, or until it is known that no plan needs them."""

    def __init__(self, program: StweaverProgram) -> None:
        from instances.extract.record.requests.engine_addition import in_engine

        self._program, self._visits = program, program.visits
        self._in_engine = in_engine
        self._has_device = torch.cuda.is_available()
        self._kind, self._phase, self._iteration = "", -1, 0
        # PyTorch leaves these untyped.
        self._numbers: Any = WeakKeyDictionary()
        self._outermost: Any = WeakSet()
        self._hooks, self._everywhere = ExitStack(), ExitStack()
        self._hooks.callback(self._everywhere.close)
        for name in ("backward", "grad"):
            told = self._telling(getattr(torch.autograd, name))
            self._hooks.enter_context(mock.patch.object(torch.autograd, name, told))
        self._keep(self._hooks, register_optimizer_step_pre_hook(lambda *_: self._reach(UPDATE)))
        self._keep(self._everywhere, register_module_forward_pre_hook(self._entered))
        self._keep(self._everywhere, register_module_forward_hook(self._left, always_call=True))

    def close(self) -> None:
        self._hooks.close()

    def _keep(self, hooks: ExitStack, handle: Any) -> None:
        hooks.callback(handle.remove)

    def _telling(self, differentiate: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            if self._in_engine():
                # Recomputation runs a backward pass within another one.
                return differentiate(*args, **kwargs)
            self._reach(BACKWARD)
            try:
                return differentiate(*args, **kwargs)
            finally:
                self._visits.leave_all()

        return run

    def _reach(self, kind: str) -> None:
        if kind == self._kind or self._passes_over():
            return
        is_outside = self._kind in ("", UPDATE)
        if is_outside and kind != FORWARD:
            return
        self._kind, self._phase = kind, 0 if is_outside else self._phase + 1
        if is_outside:
            self._begin_iteration()
        self._program.begin_phase(self._phase, makes_state=kind == UPDATE)

    def _passes_over(self) -> bool:
        # A plan waits for the device, which a capture forbids.
        return self._in_engine() or (self._has_device and torch.cuda.is_current_stream_capturing())

    def _begin_iteration(self) -> None:
        self._iteration += 1
        self._program.begin_iteration()
        if self._iteration == PLANNING_ITERATION:
            self._everywhere.close()
            if self._program.listens:
                self._follow(self._program.told_apart)
            else:
                self.close()

    def _follow(self, told_apart: frozenset[int]) -> None:
        """Put hooks on the modules that a plan tells apart, and on the outermost ones."""
        for module in self._outermost:
            hook = module.register_forward_pre_hook(lambda *_: self._reach(FORWARD))
            self._keep(self._hooks, hook)
        for module, number in self._numbers.items():
            if number in told_apart:
                begin = partial(self._visits.begin_forward, number)
                self._keep(self._hooks, module.register_forward_pre_hook(begin))
                end = self._leaving(number)
                self._keep(self._hooks, module.register_forward_hook(end, always_call=True))

    def _entered(self, module: Module, *_: Any) -> None:
        if torch._dynamo.eval_frame._is_in_optimized_module():
            # The modules within run compiled, and without hooks.
            if isinstance(module, torch._dynamo.eval_frame.OptimizedModule):
                self._outermost.add(module)
                self._reach(FORWARD)
            return
        if self._visits.depth == 0 and not self._in_engine():
            self._outermost.add(module)
        number = self._number(module)
        self._reach(FORWARD)
        # This call may have begun the iteration in which most modules lose their hooks.
        if self._iteration < PLANNING_ITERATION or number in self._program.told_apart:
            self._visits.begin_forward(number)

    def _left(self, module: Module, inputs: Any, output: Any) -> None:
        if not torch._dynamo.eval_frame._is_in_optimized_module():
            self._leaving(self._number(module))(module, inputs, output)

    def _leaving(self, number: int) -> Callable[[Module, Any, Any], None]:
        # Found once, since this runs in every call of a module.
        end_forward, in_engine = self._visits.end_forward, self._in_engine
        has_gradients = torch.is_grad_enabled
        begin = partial(self._visits.begin_backward, number)
        end = partial(self._visits.end_backward, number)

        def leave(_: Module, inputs: Any, output: Any) -> None:
            end_forward()
            if not has_gradients() or in_engine():
                return
            last = _nodes(inputs)
            for node in _nodes(output):
                # A module that returns its input has no backward pass.
                if node not in last:
                    node.register_prehook(begin)
            for node in last:
                node.register_prehook(end)

        return leave

    def _number(self, module: Module) -> int:
        if module not in self._numbers:
            self._name(module, type(module).__name__, set())
        number: int = self._numbers[module]
        return number

    def _name(self, module: Module, name: str, named: set[Module]) -> None:
        """Give numbers to a module and those within it; the outermost has the name of its class."""
        self._numbers[module] = self._program.module(name)
        if module not in named:
            named.add(module)
            for child_name, child in module.named_children():
                self._name(child, f"{name}.{child_name}", named)


def _nodes(value: Any) -> list[Any]:
    """Return the nodes of the backward pass that take gradients of tensors, of containers too."""
    if isinstance(value, Tensor):
        return [] if value.grad_fn is None else [value.grad_fn]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (tuple, list)):
        return []
    return [node for each in value for node in _nodes(each)]
