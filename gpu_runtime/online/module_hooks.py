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
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from unittest import mock

from gpu_runtime.online.stweaver_program import OUTSIDE, StweaverProgram
from planners.siblings import require_ours

FORWARD, BACKWARD, UPDATE = "forward", "backward", "update"


class ModuleHooks:
    """Hooks that stay until :meth:`close`."""

    def __init__(self, program: StweaverProgram) -> None:
        import torch
        from torch.nn.modules.module import register_module_forward_pre_hook
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        # Another package may have the name.
        require_ours("instances")
        from instances.extract.eager.allocation_mode import in_engine
        from instances.extract.eager.module_names import innermost_module, track_modules

        has_device = torch.cuda.is_available()

        def passes_over() -> bool:
            # A plan waits for the device, which a capture forbids.
            return in_engine() or (has_device and torch.cuda.is_current_stream_capturing())

        self._program, self._passes_over = program, passes_over
        self._kind, self._phase, self._module = "", -1, OUTSIDE
        self._hooks = ExitStack()
        for name in ("backward", "grad"):
            told = self._telling(getattr(torch.autograd, name))
            self._hooks.enter_context(mock.patch.object(torch.autograd, name, told))
        for handle in (
            register_module_forward_pre_hook(lambda *_: self._reach(FORWARD)),
            register_optimizer_step_pre_hook(lambda *_: self._reach(UPDATE)),
        ):
            self._hooks.callback(handle.remove)
        tracker = self._hooks.enter_context(track_modules())

        def entered(module: Any, *_: Any) -> None:
            name = None if module is None else tracker.get_known_fqn(module)
            self._move(name or innermost_module(tracker))

        def left(module: Any, *_: Any) -> None:
            # The tracker forgets the module only after this hook.
            name = None if module is None else tracker.get_known_fqn(module)
            self._move(innermost_module(tracker, leaving=name))

        tracker.register_user_hooks(entered, left, entered, left)

    def close(self) -> None:
        self._hooks.close()

    def _telling(self, differentiate: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            self._reach(BACKWARD)
            return differentiate(*args, **kwargs)

        return run

    def _reach(self, kind: str) -> None:
        if kind == self._kind or self._passes_over():
            return
        is_outside = self._kind in ("", UPDATE)
        if is_outside and kind != FORWARD:
            return
        if is_outside:
            self._program.begin_iteration()
        self._kind, self._phase = kind, 0 if is_outside else self._phase + 1
        self._program.enter(self._phase, self._module)

    def _move(self, module: str) -> None:
        if module != self._module:
            self._module = module
            self._program.enter(self._phase, module)
