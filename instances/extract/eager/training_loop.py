"""An eager training loop as people write it, with a word at the beginning of every phase."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from inspect import Parameter, signature

import torch
from torch import Tensor

from instances.extract.eager.settings import AUTOCAST_BFLOAT16, TraceSettings
from instances.traces.allocation_trace import Phase

# What a full batch of text does without where a model can: nothing is padding, and there is one
# segment.
LEFT_OUT = ("attention_mask", "token_type_ids")

# `foreach` is what PyTorch chooses by itself where all parameters are on a GPU.
_OPTIMIZERS: dict[str, Callable[[list[Tensor]], torch.optim.Optimizer]] = {
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=1e-4, foreach=True),
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=1e-2, momentum=0.9, foreach=True),
}


@dataclass(frozen=True)
class TrainingLoop:
    """A loop over iterations of microbatches.

    Every microbatch gets new tensors on the device, and nothing of it outlives its backward pass
    but the gradients. These go after the optimizer's step.

    Parameters
    ----------
    module
        In training mode, on the device; called with a batch it returns an object with a ``loss``.
    batch
        What a microbatch looks like: keyword arguments of the module.
    settings
        Iterations, microbatches, precision, optimizer.
    device
        ``"cpu"`` or ``"cuda"``.
    begin
        Called with each phase that begins.
    around_step
        Entered around the optimizer's step.
    """

    module: torch.nn.Module
    batch: dict[str, Tensor]
    settings: TraceSettings
    device: str
    begin: Callable[[Phase], None]
    around_step: Callable[[], AbstractContextManager[None]] = nullcontext

    def run(self) -> torch.optim.Optimizer:
        """Run the iterations.

        Returns
        -------
        torch.optim.Optimizer
            Whose state lives as long as it does.
        """
        optimizer = _OPTIMIZERS[self.settings.optimizer](list(self.module.parameters()))
        for _ in range(self.settings.steps):
            for _ in range(self.settings.microbatches):
                self._run_microbatch()
            self.begin(Phase.OPTIMIZER)
            with self.around_step():
                optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return optimizer

    def _run_microbatch(self) -> None:
        self.begin(Phase.FORWARD)
        inputs = inputs_like(self.batch, self.module, self.device)
        with torch.autocast(
            self.device,
            dtype=torch.bfloat16,
            enabled=self.settings.precision == AUTOCAST_BFLOAT16,
        ):
            loss = self.module(**inputs).loss
        self.begin(Phase.BACKWARD)
        loss.backward()


def inputs_like(
    batch: dict[str, Tensor], module: torch.nn.Module, device: str
) -> dict[str, Tensor]:
    """Return new inputs of a microbatch, which a language model predicts itself.

    Parameters
    ----------
    batch
        Shapes and dtypes.
    module
        Which may do without a mask.
    device
        Where the new tensors are.

    Returns
    -------
    dict of torch.Tensor
        Zeros. Labels that have the shape of the tokens are the tokens.
    """
    inputs: dict[str, Tensor] = {}
    tokens = batch.get("input_ids")
    parameters = signature(module.forward).parameters
    for name, like in batch.items():
        if name == "labels" and tokens is not None and like.shape == tokens.shape:
            inputs[name] = inputs["input_ids"]
        elif name not in LEFT_OUT or parameters[name].default is Parameter.empty:
            inputs[name] = torch.zeros(like.shape, dtype=like.dtype, device=device)
    return inputs
