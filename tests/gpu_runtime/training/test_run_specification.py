"""A specification travels as one line and tells the command that it stands for."""

from __future__ import annotations

from dataclasses import replace

from gpu_runtime.training.run_specification import Allocator, Purpose, RunSpecification
from instances.extract.eager.trace_settings import TraceSettings
from tests.gpu_runtime.training.worker_results import SPECIFICATION


def test_a_specification_arrives_as_it_was_sent() -> None:
    specification = replace(
        SPECIFICATION, purpose=Purpose.TIME, allocator=Allocator.PLANNED, strict=False
    )
    line = specification.to_json()
    assert "\n" not in line
    assert RunSpecification.from_json(line) == specification
    assert RunSpecification.from_json(line).label == "time planned"


def test_the_command_says_what_is_not_as_by_default() -> None:
    assert SPECIFICATION.command == (
        "python -m gpu_runtime.train bert-base --batch 2 --checkpointing --microbatches 2"
    )
    plain = RunSpecification(
        Purpose.TIME, Allocator.DEFAULT, "resnet-50", settings=TraceSettings(steps=9)
    )
    assert plain.command == "python -m gpu_runtime.train resnet-50"
