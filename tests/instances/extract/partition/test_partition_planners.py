"""PyTorch's partitioner as planners: within the limit, on the instance's own tensors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from instances.extract.models import MODELS, find_model
from instances.extract.partition.partition_planners import SOLVERS, model_of_command
from instances.extract.step_settings import read_options
from instances.synthetic import repeatable_step
from planners import Problem
from planners.errors import InstanceError
from planners.model.budget import Budget
from planners.model.plan import Status
from planners.recompute import RepeatableStep, choose_planners, device_rates, frontier
from planners.recompute.limit_planner import TIME_IS_OVER
from tests.instances.extract.tiny_models import extract_tiny, tiny_settings

NAMES = [f"pytorch-partitioner-{solver}" for solver in SOLVERS]


def answers(problem: Problem, part: float, seconds: float = 60.0) -> list[Any]:
    step = RepeatableStep(problem, device_rates("h100"))
    limit = int(part * step.live_bytes.max())
    planners = choose_planners(",".join(NAMES))
    (point,) = frontier(step, [limit], planners, Budget(time_limit_seconds=seconds))
    return point.results


@pytest.mark.torch
def test_within_the_limit() -> None:
    # So many rows that activations, not parameters, take the memory.
    problem = extract_tiny("vit-base", batch=64, layers=6, image=128)
    for result in answers(problem, 0.8):
        assert result.status is Status.FEASIBLE
        assert 0 < result.extra_seconds < np.inf
        assert result.plan.peak <= result.limit
        assert 0 <= float(result.reason.removeprefix("activation_memory_budget=")) < 1
    for result in answers(problem, 1.0):
        assert result.reason == "activation_memory_budget=1"
        assert result.extra_seconds == 0
    for result in answers(problem, 0.8, seconds=0):
        assert (result.status, result.reason) == (Status.NO_PLAN_FOUND, TIME_IS_OVER)


@pytest.mark.torch
def test_another_step_than_the_model_s() -> None:
    problem = extract_tiny("vit-base", batch=64, layers=6, image=128)
    names = [name.replace("gelu", "tanh") for name in problem.tensor_name or ()]
    renamed = Problem(problem.size, graph=problem.graph, tensor_name=names, origin=problem.origin)
    for result in answers(renamed, 0.8):
        assert result.status is Status.UNSUPPORTED
        assert "makes the tensor" in result.reason


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("", "field origin.command: python -m instances.extract and the name of a model is needed"),
        ("python -m instances.synthetic steps", "field origin.command: python -m instances.ext"),
        ("python -m instances.extract 'bert", "field origin.command: python -m instances.extract"),
        ("python -m instances.extract nobody", "no model is called 'nobody'"),
        ("python -m instances.extract bert-base --rows 3", "option --rows: one of --batch"),
        ("python -m instances.extract bert-base --batch x", "option --batch: a number is needed"),
    ],
)
def test_a_step_that_cannot_be_traced_again(command: str, message: str) -> None:
    with pytest.raises(InstanceError) as error:
        model_of_command(command)
    assert str(error.value).startswith(message)
    synthetic = repeatable_step(4, seed=1)
    changed = Problem(synthetic.size, graph=synthetic.graph, origin={"command": command})
    for result in answers(changed, 1.0):
        assert result.status is Status.UNSUPPORTED
        assert result.reason.startswith(message)


@pytest.mark.parametrize("name", MODELS)
def test_options_are_read_as_they_were_written(name: str) -> None:
    model = find_model(name)
    tiny = model.settings(**{**tiny_settings(name), "streams": "roles", "clip_norm": 0.5})
    for settings in (model.defaults, tiny, replace(tiny, precision="bfloat16", lora="r=4")):
        options = settings.command_line(model.defaults)
        assert model.settings(**read_options(options.split())) == settings
    checkpointing = replace(model.defaults, checkpointing=not model.defaults.checkpointing)
    options = checkpointing.command_line(model.defaults)
    assert read_options(options.split())["checkpointing"] == checkpointing.checkpointing
