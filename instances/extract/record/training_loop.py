"""An eager training loop as people write it, with a word at the beginning of every phase."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from instances.extract.record.ranks.parallel_model import of_one_kind
from instances.extract.record.trace_settings import TraceSettings
from instances.traces.allocation_trace import Phase
from planners.errors import InstanceError

# Arguments that a full batch of text leaves out if the model can do without them: no token is
# padding, and there is one segment.
LEFT_OUT = ("attention_mask", "token_type_ids")

# PyTorch chooses `foreach` by itself if all parameters are on a GPU.
_OPTIMIZERS: dict[str, Callable[[list[dict[str, Any]]], torch.optim.Optimizer]] = {
    "adamw": lambda groups: torch.optim.AdamW(groups, lr=1e-4, foreach=True),
    "sgd": lambda groups: torch.optim.SGD(groups, lr=1e-2, momentum=0.9, foreach=True),
}


@dataclass(frozen=True)
class TrainingLoop:
    """A loop over iterations of microbatches.

    Every microbatch gets new tensors on the device, and nothing of it outlives its backward pass
    but the gradients. These go after the optimizer's step.
    """

    # In training mode, on the device; called with a batch it returns an object with a ``loss``.
    module: torch.nn.Module
    # Returns new inputs of a microbatch on the device, by the arguments of the module.
    next_inputs: Callable[[], dict[str, Any]]
    settings: TraceSettings
    # ``"cpu"`` or ``"cuda"``.
    device: str
    begin: Callable[[Phase], None]
    # Called with the loss of each microbatch, before its backward pass.
    saw_loss: Callable[[Tensor], None] | None = None

    def run(self) -> torch.optim.Optimizer:
        """Run the iterations and return the optimizer, whose state lives as long as it does."""
        optimizer = self.make_optimizer()
        for _ in range(self.settings.steps):
            self.run_iteration(optimizer)
        return optimizer

    def make_optimizer(self) -> torch.optim.Optimizer:
        """Return the optimizer of the module's parameters, still without state."""
        groups = [{"params": kind} for kind in of_one_kind(self.module.parameters())]
        return _OPTIMIZERS[self.settings.optimizer](groups)

    def run_iteration(self, optimizer: torch.optim.Optimizer) -> None:
        for _ in range(self.settings.microbatches):
            self._run_microbatch()
        self.begin(Phase.OPTIMIZER)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    def _run_microbatch(self) -> None:
        self.begin(Phase.FORWARD)
        inputs = self.next_inputs()
        with torch.autocast(
            self.device,
            dtype=torch.bfloat16,
            enabled=self.settings.is_autocast,
        ):
            loss = self.module(**inputs).loss
        if loss is None:
            raise InstanceError(
                f"a module that computes a loss of {', '.join(inputs)} is needed, found "
                f"{type(self.module).__name__}, which computes none"
            )
        if self.saw_loss is not None:
            self.saw_loss(loss)
        self.begin(Phase.BACKWARD)
        loss.backward()


def zero_inputs(batch: dict[str, Any], module: torch.nn.Module, device: str) -> dict[str, Any]:
    """Return inputs of a microbatch that are all zeros, of the shapes and dtypes of a batch."""
    return make_inputs(
        batch,
        module,
        lambda _, like: torch.zeros(like.shape, dtype=like.dtype, device=device),
    )


def make_inputs(
    batch: dict[str, Any], module: torch.nn.Module, make: Callable[[str, Tensor], Tensor]
) -> dict[str, Any]:
    """Return new inputs of a microbatch, those that the module needs.

    A tensor of the batch is made by its innermost name, once, and all else is passed on.
    """
    needed = {
        name
        for name, parameter in signature(module.forward).parameters.items()
        if parameter.default is Parameter.empty
    }
    made: dict[int, Tensor] = {}

    def make_one(path: Sequence[Any], like: Any) -> Any:
        if not isinstance(like, Tensor):
            return like
        if id(like) not in made:
            names = [step.key for step in path if isinstance(step, pytree.MappingKey)]
            made[id(like)] = make(names[-1], like)
        return made[id(like)]

    given = {name: value for name, value in batch.items() if name not in LEFT_OUT or name in needed}
    inputs: dict[str, Any] = pytree.tree_map_with_path(make_one, given)
    return inputs
