"""A model, its batches and its loop, ready to run, the same in every process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from gpu_runtime.training.random_batches import RandomBatches
from gpu_runtime.training.run_specification import RunSpecification
from instances.extract.eager.training_loop import TrainingLoop
from instances.extract.models import find_model
from instances.extract.tracing.building import build_module
from instances.traces.allocation_trace import Phase


@dataclass(frozen=True)
class PreparedRun:
    """A module on the device and what it is fed.

    Parameters
    ----------
    module
        In training mode, with seeded weights.
    batches
        Seeded too.
    job
        What it is for.
    """

    module: torch.nn.Module
    batches: RandomBatches
    job: RunSpecification

    def loop(
        self,
        next_inputs: Callable[[], dict[str, Tensor]],
        begin: Callable[[Phase], None] = lambda _: None,
        saw_loss: Callable[[Tensor], None] | None = None,
    ) -> TrainingLoop:
        """Return the loop, which runs iteration by iteration.

        Parameters
        ----------
        next_inputs, begin, saw_loss
            As in :class:`TrainingLoop`.

        Returns
        -------
        TrainingLoop
            Of this module.
        """
        job = self.job
        return TrainingLoop(
            self.module, next_inputs, job.settings, job.device, begin, saw_loss=saw_loss
        )


def prepare(job: RunSpecification) -> PreparedRun:
    """Build a job's model with seeded weights and move it to the device.

    Parameters
    ----------
    job
        What is run.

    Returns
    -------
    PreparedRun
        The same numbers whenever job and versions are the same.

    Raises
    ------
    InstanceError
        The model or a setting is unknown.
    """
    # On the device too: this also seeds its dropout.
    torch.manual_seed(job.seed)
    model = find_model(job.model)
    shape = model.settings(**job.shape, precision=job.settings.weights_precision)
    module, batch = build_module(model, shape, is_computed=True)
    module = module.to(job.device)
    return PreparedRun(module, RandomBatches(module, batch, job.seed, job.device), job)
