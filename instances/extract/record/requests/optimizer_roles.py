"""The roles of blocks in the steps of optimizers: gradients, states, and what an update allocates.

Note: how roles are known in any loop
-------------------------------------
Rationale. Sizes and lifetimes do not tell a gradient from the workspace that cuBLAS keeps, both of
which a backward pass allocates and may leave.

Approach. Every optimizer of PyTorch calls hooks before and after its step. They ask it for its
parameters, their gradients and their states, and the recording for the blocks of these.

Limits. A program that updates its parameters without an optimizer of PyTorch has no roles. If an
optimizer is called with a closure, which runs the model, nothing counts as made for the update.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from instances.extract.record.requests.allocation_mode import AllocationMode
from instances.extract.record.requests.request_recorder import AllocatorRequest
from instances.traces.allocation_trace import Role


@dataclass
class OptimizerRoles:
    """Tells a recording the roles of its blocks."""

    mode: AllocationMode
    # The number of requests before the step that runs.
    first: int = 0

    @contextmanager
    def told(self) -> Iterator[None]:
        """Within this context optimizers tell of their blocks."""
        with ExitStack() as stack:
            for handle in (
                register_optimizer_step_pre_hook(self._before_update),
                register_optimizer_step_post_hook(self._after_update),
            ):
                stack.callback(handle.remove)
            yield

    def _before_update(self, optimizer: Any, *_: object) -> None:
        self.first = len(self.mode.recorder.requests)
        self._tell_gradients(optimizer)

    def _after_update(self, optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not any(map(callable, (*args, *kwargs.values()))):
            for request in self.mode.recorder.requests[self.first :]:
                request.role = Role.UPDATE
        # If the optimizer ran a closure, the gradients exist only now.
        self._tell_gradients(optimizer)
        for parameter, state in optimizer.state.items():
            for value in state.values():
                if (block := self._block_of(value)) is not None:
                    block.role = Role.STATE
                    if value.is_floating_point() and value.numel() == parameter.numel():
                        block.element_bytes = value.element_size()

    def _tell_gradients(self, optimizer: Any) -> None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if (block := self._block_of(parameter.grad)) is not None:
                    block.role = Role.GRADIENT

    def _block_of(self, value: object) -> AllocatorRequest | None:
        """Return the block of a tensor, of a distributed one that of its shard."""
        shard = getattr(value, "_local_tensor", value)
        return self.mode.block_of(shard) if isinstance(shard, Tensor) else None
