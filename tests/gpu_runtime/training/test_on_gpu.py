"""Small models trained for real under every allocator: the same bits, and no memory wasted."""

from __future__ import annotations

from dataclasses import replace as changed
from functools import cache

import pytest
from msgspec.structs import replace

from gpu_runtime.training.comparison import (
    AllocatorComparison,
    check_bits,
    time_in_turns,
    under,
)
from gpu_runtime.training.comparison_report import notes, study_table
from gpu_runtime.training.run_processes import answer_of
from gpu_runtime.training.run_result import Failure, RunResult
from gpu_runtime.training.training_run import (
    JUDGED,
    Allocator,
    Purpose,
    RegisteredModel,
    model_run,
)
from instances.extract.record.trace_settings import TraceSettings

pytestmark = pytest.mark.gpu

PAGE_BYTES = 2 << 20
# Pages above the bound on reserved bytes: its slack, and parts of pages.
SLACK_PAGES = 12
TIMED_STEPS = 10


def small(model: str, settings: TraceSettings, **shape: int | bool) -> RegisteredModel:
    return RegisteredModel(model, shape, changed(settings, steps=6))


MODELS = {
    "bert-base": small("bert-base", TraceSettings(), layers=2, batch=8, seq=128),
    "gpt2-medium": small(
        "gpt2-medium", TraceSettings(microbatches=2), layers=3, batch=2, seq=128, checkpointing=True
    ),
    "resnet-50": small("resnet-50", TraceSettings(), batch=8, image=64),
    "mobilenet-v2": small("mobilenet-v2", TraceSettings(optimizer="sgd"), batch=8, image=64),
}

each_model = pytest.mark.parametrize("model", list(MODELS))


@cache
def comparison_of(model: str) -> AllocatorComparison:
    """Run every worker once; the tests look at what came out."""
    comparison = AllocatorComparison()
    check_bits(
        under(JUDGED, model_run(Purpose.CHECK, MODELS[model])), comparison, lambda _: None, 3
    )
    run = replace(model_run(Purpose.TIME, MODELS[model]), warm_up=6, turn_steps=TIMED_STEPS)
    for answers in time_in_turns([[its] for its in under(JUDGED, run)], lambda _: None):
        for its, answer in answers:
            comparison.keep(its, answer)
    print(study_table(comparison).plain(), *notes(comparison), sep="\n")
    return comparison


def timing(model: str, allocator: Allocator) -> RunResult:
    comparison = comparison_of(model)
    assert not comparison.failures
    return comparison.timings[allocator]


@each_model
def test_the_same_bits_come_out(model: str) -> None:
    comparison = comparison_of(model)
    assert not comparison.failures
    agreement = comparison.agreement
    assert agreement is not None
    assert agreement.compared == JUDGED
    assert agreement.is_bit_identical, [str(found) for found in agreement.differences]
    assert agreement.steps == 6
    assert agreement.losses == 6 * MODELS[model].settings.microbatches
    assert agreement.gradients == 6 * agreement.parameters > 0


@each_model
def test_the_plan_served_the_steps_that_were_checked(model: str) -> None:
    check = comparison_of(model).checks[Allocator.PLANNED]
    assert check.plan is not None
    # The plan is made after two consecutive steps that made the same requests.
    assert check.plan.planned_steps >= 2
    assert check.plan.planned_requests > 0


@each_model
def test_reserved_memory_is_little_more_than_what_lives(model: str) -> None:
    found = timing(model, Allocator.PLANNED)
    assert found.plan is not None
    assert found.peaks is not None
    assert found.peaks.reserved >= found.plan.arena_bytes >= found.plan.lower_bound > 0
    assert found.plan.reserved_bytes <= found.plan.pytorch_bytes
    assert found.peaks.reserved <= found.peaks.allocated * 257 / 256 + SLACK_PAGES * PAGE_BYTES


@each_model
def test_every_steady_step_follows_its_plan(model: str) -> None:
    plan = timing(model, Allocator.PLANNED).plan
    assert plan is not None
    assert plan.planned_steps >= TIMED_STEPS
    assert plan.unexpected_requests == 0
    assert plan.mismatches == ()


@each_model
def test_memory_efficiency_is_at_least_pytorchs(model: str) -> None:
    efficiency = {}
    for allocator in JUDGED:
        peaks = timing(model, allocator).peaks
        assert peaks is not None
        assert 0 < peaks.requested <= peaks.allocated <= peaks.reserved
        efficiency[allocator] = peaks.efficiency
    assert efficiency[Allocator.PLANNED] == max(efficiency.values())


@each_model
def test_the_driver_and_the_whole_run_account_for_the_memory(model: str) -> None:
    for allocator in JUDGED:
        found = timing(model, allocator)
        assert found.peaks is not None
        assert found.whole_run_reserved is not None
        assert found.device_bytes is not None
        assert found.whole_run_reserved >= found.peaks.reserved
        assert found.environment["device"]
        assert len(found.every_step) == TIMED_STEPS
        assert min(found.every_step) > 0


def test_another_seed_gives_other_bits() -> None:
    one = comparison_of("bert-base").checks[Allocator.PLANNED]
    run = model_run(Purpose.CHECK, MODELS["bert-base"], Allocator.PLANNED)
    other = answer_of(replace(run, seed=1))
    assert isinstance(other, RunResult), other
    assert one.losses[0] != other.losses[0]
    assert one.parameters != other.parameters


def test_a_step_that_does_not_fit_is_one_line() -> None:
    large = replace(MODELS["bert-base"], shape={"batch": 1 << 13, "seq": 512, "layers": 12})
    for allocator in JUDGED:
        result = answer_of(model_run(Purpose.CHECK, large, allocator))
        assert isinstance(result, Failure), allocator
        assert "\n" not in result.message
        assert not result.is_general
