"""The value that a user's function returns: a training step, or any function that runs one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard

from planners.errors import InstanceError
from planners.text.plain_text import shown

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module
    from torch.optim import Optimizer

# Runs one step, the optimizer's included. Its result is dropped.
Step = Callable[[], object]


def is_step(value: object) -> TypeGuard[Step]:
    """Return True if an object runs a step when called; a module or a class does not."""
    import torch

    return callable(value) and not isinstance(value, (torch.nn.Module, type))


@dataclass(frozen=True)
class TrainingStep:
    """The usual training step: forward pass, loss, backward pass, optimizer.

    Calling it runs one step, on tensors of any kind. Copies of inputs and targets go to the device
    of the module. The result of the module is dropped once the loss is computed, and gradients are
    dropped after the update.

    Parameters
    ----------
    module
        The model; its result is the input of `loss`.
    inputs
        The arguments of the module: one tensor, a sequence of arguments, or a mapping of keyword
        arguments.
    optimizer
        The optimizer of the trained parameters.
    loss
        Returns the loss, a scalar, from the result of the module and from `targets`, if there are
        any. Without it the module returns the loss: as a tensor, as ``loss`` of an object or of a
        mapping, or as the first of a tuple or a list.
    targets
        Second argument of `loss`.

    Raises
    ------
    InstanceError
        `module` is not a module, `optimizer` is not an optimizer, or there are targets without a
        `loss`.
    """

    module: Module
    inputs: Tensor | Sequence[Any] | Mapping[str, Any]
    optimizer: Optimizer
    loss: Callable[..., Tensor] | None = None
    targets: Any = None

    def __post_init__(self) -> None:
        import torch

        for name, value, kind in (
            ("module", self.module, torch.nn.Module),
            ("optimizer", self.optimizer, torch.optim.Optimizer),
            ("inputs", self.inputs, (torch.Tensor, Sequence, Mapping)),
        ):
            if not isinstance(value, kind):
                raise InstanceError(
                    f"TrainingStep, {name}: {_NEEDED[name]} is needed, found {_kind(value)}"
                )
        if self.targets is not None and self.loss is None:
            raise InstanceError("TrainingStep, targets: a loss that takes them is needed as well")

    def __call__(self) -> None:
        """Run one step."""
        inputs, targets = self._on_device((self.inputs, self.targets))
        # The name lets types check alike with PyTorch and without.
        loss: Any = self._find_loss(inputs, targets)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def host_tensors(self) -> Iterator[Tensor]:
        """Yield the tensors on the host that each step copies."""
        import torch
        from torch.utils import _pytree as pytree

        for leaf in pytree.tree_leaves((self.inputs, self.targets)):
            if isinstance(leaf, torch.Tensor):
                yield leaf

    def _on_device(self, values: Any) -> Any:
        """Return copies on the module's device; a tensor that occurs twice is copied once."""
        import torch
        from torch.utils import _pytree as pytree

        device = next((parameter.device for parameter in self.module.parameters()), "cpu")
        copies: dict[int, Tensor] = {}

        def copy(tensor: Tensor) -> Tensor:
            if id(tensor) not in copies:
                copies[id(tensor)] = tensor.to(device, copy=True)
            return copies[id(tensor)]

        return pytree.tree_map_only(torch.Tensor, copy, values)

    def _find_loss(self, inputs: Any, targets: Any) -> Tensor:
        import torch

        if isinstance(inputs, torch.Tensor):
            output = self.module(inputs)
        elif isinstance(inputs, Mapping):
            output = self.module(**inputs)
        else:
            output = self.module(*inputs)
        if self.loss is None:
            found, whose = _loss_in(output), "the result of the module"
        else:
            found = self.loss(output) if targets is None else self.loss(output, targets)
            whose = "the result of the loss function"
        if not isinstance(found, torch.Tensor) or found.numel() != 1:
            raise InstanceError(
                f"TrainingStep, loss: {whose} has to be or to hold a scalar tensor, "
                f"found {_kind(output if self.loss is None else found)}; give loss=, a function "
                f"of the module's result"
            )
        return found


_NEEDED = {
    "module": "a torch.nn.Module",
    "optimizer": "a torch.optim.Optimizer",
    "inputs": "a tensor, a sequence of arguments or a mapping of keyword arguments",
}


def _loss_in(output: Any) -> Any:
    if isinstance(output, Mapping) and "loss" in output:
        return output["loss"]
    if isinstance(output, (tuple, list)) and not hasattr(output, "loss"):
        return output[0] if output else None
    return getattr(output, "loss", output)


def _kind(value: object) -> str:
    """Return a value's name for messages: its class, and of a tensor the shape."""
    shape = getattr(value, "shape", None)
    kind = type(value).__name__ if shape is None else f"a tensor of shape {tuple(shape)}"
    return kind if shape is not None or value is not None else shown(value)
