"""A model, its batches and its loop, ready to run, the same in every process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from gpu_runtime.training.random_batches import RandomBatches
from gpu_runtime.training.run_specification import RunSpecification
from instances.extract.eager.training_loop import TrainingLoop
from instances.extract.models import find_model
from instances.extract.models.own_models import register_own_models
from instances.extract.tracing.building import build_module
from instances.traces.allocation_trace import Phase


@dataclass(frozen=True)
class PreparedRun:
    """A module on the device and what it is fed."""

    # In training mode, with seeded weights.
    module: torch.nn.Module
    batches: RandomBatches
    specification: RunSpecification

    def loop(
        self,
        next_inputs: Callable[[], dict[str, Tensor]],
        begin: Callable[[Phase], None] = lambda _: None,
        saw_loss: Callable[[Tensor], None] | None = None,
    ) -> TrainingLoop:
        """Return the loop, which runs iteration by iteration; arguments are those of its class."""
        specification = self.specification
        return TrainingLoop(
            self.module,
            next_inputs,
            specification.settings,
            specification.device,
            begin,
            saw_loss=saw_loss,
        )


def prepare(specification: RunSpecification) -> PreparedRun:
    """Build the model of a run on its device: the same numbers for the same specification."""
    # On the device too: this also seeds its dropout.
    torch.manual_seed(specification.seed)
    register_own_models(map(Path, specification.models))
    model = find_model(specification.model)
    shape = model.settings(
        **specification.shape, precision=specification.settings.weights_precision
    )
    module, batch = build_module(model, shape, is_computed=True)
    module = module.to(specification.device)
    return PreparedRun(
        module,
        RandomBatches(module, batch, specification.seed, specification.device),
        specification,
    )
