"""A run travels as one line; a registered model tells the command that it stands for."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gpu_runtime.training.training_run import (
    Allocator,
    Purpose,
    RegisteredModel,
    TrainingRun,
    model_run,
)
from instances.extract.record.trace_settings import TraceSettings
from planners.errors import InstanceError
from tests.gpu_runtime.training.run_results import MODEL


@pytest.mark.parametrize("purpose", list(Purpose))
def test_a_run_arrives_as_it_was_sent(purpose: Purpose) -> None:
    run = replace(model_run(purpose, MODEL, Allocator.PLANNED), strict=False, rank=1, ranks=2)
    line = run.to_json()
    assert "\n" not in line
    assert TrainingRun.from_json(line) == run
    assert TrainingRun.from_json(line).label == f"{purpose} planned"
    with pytest.raises(InstanceError, match="setting microbatches: at least 1, found 0"):
        TrainingRun.from_json(line.replace('"microbatches":2', '"microbatches":0'))


def test_a_step_that_is_not_timed_begins_each_turn() -> None:
    run = replace(model_run(Purpose.TIME, MODEL), warm_up=3, turns=4, turn_steps=2)
    assert (run.timed_until, run.steps) == (3 + 4 * 3, 3 + 4 * 3)
    assert replace(run, profiled_steps=1).steps == 3 + 4 * 3 + 2
    assert model_run(Purpose.CHECK, MODEL).steps == MODEL.settings.steps


def test_the_command_says_what_is_not_as_by_default() -> None:
    assert MODEL.arguments == "bert-base --batch 2 --checkpointing --microbatches 2"
    assert RegisteredModel("resnet-50", settings=TraceSettings(steps=9)).arguments == "resnet-50"


def test_a_training_is_read_as_commands_take_it() -> None:
    assert RegisteredModel.read(MODEL.arguments, steps=2) == MODEL
    text = "resnet-50 --image 8 --optimizer sgd --precision float32"
    settings = TraceSettings(precision="float32", optimizer="sgd")
    assert RegisteredModel.read(text) == RegisteredModel("resnet-50", {"image": 8}, settings)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("bert-base --batches 3", "no option is called '--batches'; did you mean '--batch'"),
        ("bert-base batch 3", "no option is called 'batch'"),
        ("bert-base --batch", "--batch: a whole number is needed, found nothing"),
        ("bert-base --batch -3", "--batch: a whole number is needed, found '-3'"),
        ("bert-base --optimizer", "--optimizer: a name is needed, found nothing"),
        ("bert-base --optimizer adam", "setting optimizer: no optimizer is called 'adam'"),
    ],
)
def test_refuses_other_texts_than_trainings(text: str, says: str) -> None:
    with pytest.raises(InstanceError, match=says):
        RegisteredModel.read(text)
