"""PyTorch's partitioner as planners of a step under a limit, one for each of its solvers.

Note: the values of the memory budget
-------------------------------------
PyTorch is not given bytes, but a part of what lies between the arguments and all that a step
without a budget keeps. A user would try values, and so do these planners: the tenths from 1 down,
until one meets the limit, then values between that one and the one before. A smaller part may need
more bytes: with 0 the whole forward pass runs again before the backward pass begins.
"""

from __future__ import annotations

import shlex
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np

from instances.extract.models import Model, find_model
from instances.extract.models.required_packages import require_packages
from instances.extract.step_settings import StepSettings, read_options
from planners.errors import GaplessError, InstanceError
from planners.recompute import (
    LimitAnswer,
    LimitQuestion,
    RepeatableStep,
    UnsupportedStepError,
    register,
)

if TYPE_CHECKING:
    from instances.extract.partition.joint_graph import JointGraph
    from instances.extract.partition.pytorch_partitioner import Partition

PROGRAM = ["python", "-m", "instances.extract"]
SOLVERS = {
    "dp": "by dynamic programming over parts of the budget",
    "greedy": "by the most operations a byte",
    "ilp": "by integer programming",
}
TENTH = 0.1
TENTHS = tuple(part * TENTH for part in range(10, -1, -1))
# How often the distance to the next larger tenth is halved.
REFINEMENTS = 3


def _answer(question: LimitQuestion, solver: str) -> LimitAnswer:
    step, command = question.step, str(question.step.problem.origin.get("command", ""))
    try:
        joint = _joint_graph_of(command)
        _require_same_tensors(step, joint)
    except GaplessError as error:
        raise UnsupportedStepError(str(error)) from None
    extra: dict[float, float] = {}

    def is_met(memory_budget: float) -> bool:
        if question.budget.remaining_seconds() == 0:
            return False
        choice = step.choice(_units(step, _partition(command, solver, memory_budget)))
        seconds, peak, _ = step.cost(choice, question.limit)
        if peak <= question.limit:
            extra[memory_budget] = seconds
        return memory_budget in extra

    met = next(filter(is_met, TENTHS), None)
    if met is None:
        return question.answer(None)
    unmet = met + TENTH
    for _ in range(REFINEMENTS if met < 1 else 0):
        middle = (met + unmet) / 2
        met, unmet = (middle, unmet) if is_met(middle) else (met, middle)
    best = min(extra, key=lambda value: extra[value])
    choice = step.choice(_units(step, _partition(command, solver, best)))
    return replace(question.answer(choice), reason=f"activation_memory_budget={best:g}")


for _solver, _how in SOLVERS.items():
    register(
        f"pytorch-partitioner-{_solver}",
        summary=f"PyTorch's min-cut, with its knapsack solved {_how}",
        source="PyTorch, torch._functorch.partitioners",
        by_default=False,  # each traces the model anew and asks PyTorch up to fourteen times
    )(partial(_answer, solver=_solver))


def model_of_command(command: str) -> tuple[Model, StepSettings]:
    """Return the registered model, and its settings, that an instance was extracted from."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = []
    if words[:3] != PROGRAM or len(words) < 4:
        raise InstanceError(
            f"field origin.command: {' '.join(PROGRAM)} and the name of a model is needed, by "
            f"which the step can be traced again, found {command!r:.60}"
        )
    model = find_model(words[3])
    return model, model.settings(**read_options(words[4:]))


@cache
def _joint_graph_of(command: str) -> JointGraph:
    model, settings = model_of_command(command)
    require_packages()
    from instances.extract.partition.joint_graph import joint_graph

    return joint_graph(model, settings)


@cache
def _partition(command: str, solver: str, memory_budget: float) -> Partition:
    from instances.extract.partition.pytorch_partitioner import partition

    return partition(_joint_graph_of(command), memory_budget, solver)


def _require_same_tensors(step: RepeatableStep, joint: JointGraph) -> None:
    known = set(step.problem.tensor_name or ())
    for tensors in joint.makes.values():
        for tensor in tensors:
            if tensor not in known:
                raise InstanceError(
                    f"{step.problem.name}: the step traced anew makes the tensor {tensor}, which "
                    f"the instance does not have; extract it with the packages of now"
                )


def _units(step: RepeatableStep, found: Partition) -> list[int]:
    """Return the units that run again, of those that may."""
    names = step.problem.tensor_name or ()
    repeated = [tensor for tensor, name in enumerate(names) if name in found.repeated]
    units = np.unique(step.unit_of_tensor[repeated])
    return [unit for unit in units.tolist() if step.is_repeatable[unit]]
