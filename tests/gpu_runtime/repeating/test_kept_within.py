"""A user's loss, kept within a limit."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import Tensor

from evaluation.measuring.step_meter import cpu_peak_bytes
from gpu_runtime.repeating import KeptWithin, problem_of, record_step
from planners.budget import RepeatableStep, device_rates
from planners.errors import GaplessError
from tests.gpu_runtime.repeating.small_steps import SMALL_STEPS, VOCABULARY, small_step

pytestmark = pytest.mark.torch


def peak_of(name: str) -> int:
    step = RepeatableStep(problem_of(record_step(small_step(name).loss_of)), device_rates("h100"))
    return int(step.live_bytes.max())


@pytest.mark.parametrize(("planner", "share"), [("greedy", 0.9), ("local-search", 0.8)])
@pytest.mark.parametrize("name", SMALL_STEPS)
def test_a_step_keeps_within_its_limit(name: str, planner: str, share: float) -> None:
    limit = int(share * peak_of(name))
    small, other = small_step(name), small_step(name)
    loss_of = KeptWithin(small.loss_of, limit, planner=planner, time_limit=1, strict=True)
    decision = loss_of.decision()
    assert decision.repeated_count > 0
    torch.manual_seed(1)
    measured = cpu_peak_bytes(lambda: loss_of().backward())
    assert measured == pytest.approx(decision.peak, rel=1e-3)
    assert decision.peak <= limit
    torch.manual_seed(1)
    other.loss_of().backward()
    assert all(map(torch.equal, small.gradients(), other.gradients()))


def test_a_step_within_its_limit_keeps_all() -> None:
    small = small_step("bert")
    loss_of = KeptWithin(small.loss_of, "1GiB")
    assert loss_of.decision().repeated_count == 0
    loss_of().backward()
    assert small.gradients()


def test_a_limit_that_is_too_small_is_refused_with_the_least() -> None:
    loss_of = KeptWithin(small_step("vit").loss_of, "20KiB", planner="greedy", time_limit=1)
    with pytest.raises(
        GaplessError, match=r"limit: 20.00 KiB is too small .* no step is within less"
    ):
        loss_of()


def test_other_shapes_are_decided_anew() -> None:
    weight = torch.randn(32, 32, requires_grad=True)

    def loss_of(batch: Tensor) -> Tensor:
        for _ in range(6):
            batch = torch.tanh(batch @ weight) * 2
        return batch.sum()

    kept = KeptWithin(loss_of, 10 * 64 * 32 * 4, planner="greedy", strict=True)
    small, large = torch.randn(8, 32), torch.randn(64, 32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept(small).backward()
        kept(large).backward()
    assert kept.decision(small).repeated_count == 0
    assert kept.decision(large).repeated_count > 0
    assert kept.decision(torch.ones(64, 32)) is kept.decision(large)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_a_model_that_looks_at_its_mask_runs_the_kernels_of_the_record(name: str) -> None:
    small = small_step(name)
    tokens = torch.randint(0, VOCABULARY, (4, 24))
    mask = torch.ones_like(tokens)

    def masked() -> Tensor:
        loss: Tensor = small.module(input_ids=tokens, labels=tokens, attention_mask=mask).loss
        return loss

    loss_of = KeptWithin(masked, int(0.9 * peak_of(name)), planner="greedy", strict=True)
    assert loss_of.decision().repeated_count > 0
    loss_of().backward()
    assert small.gradients()
