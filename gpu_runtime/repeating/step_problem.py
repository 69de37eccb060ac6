"""The problem of a recorded step."""

from __future__ import annotations

from dataclasses import replace

from gpu_runtime.repeating.recorded_step import RecordedStep
from instances.extract.kernels.kernel_work import work_of_kernels
from instances.extract.kernels.storages import StepPhase, graph_of_kernels, planned_storages
from planners.model.problem import Problem


def problem_of(recorded: RecordedStep, name: str = "step") -> Problem:
    """Return the problem of a recorded step, whose graph knows its work.

    Its tensors are those that the step makes, gradients included. Parameters, optimizer state and
    the batch are outside of it. A kernel of the forward pass may run again if PyTorch says so, if
    it changes nothing that was there before, and if it makes nothing that the program holds anyway.
    """
    kernels, storages = recorded.kernels, recorded.storages
    work = work_of_kernels(kernels, storages.size, recorded.outside)
    if work is not None:
        again = [
            place in recorded.may_repeat
            and kernel.phase is StepPhase.FORWARD
            and recorded.held.isdisjoint((*kernel.creates, *kernel.writes))
            for place, kernel in enumerate(kernels)
        ]
        work = replace(work, repeatable=work.repeatable * again)
    planned = planned_storages(kernels)
    return Problem(
        [storages.size[storage] for storage in planned],
        graph=graph_of_kernels(kernels, work=work),
        tensor_name=[storages.name[storage] for storage in planned],
        name=name,
        origin={"precision": recorded.precision},
    )
