"""A user's loss, kept within a limit."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from evaluation.measuring.step_meter import cpu_peak_bytes
from gpu_runtime.repeating import (
    Decision,
    KeptWithin,
    decision_of_sequence,
    problem_of,
    record_step,
)
from gpu_runtime.repeating.decision import decision_of_choice
from planners import Budget, Graph, Problem, write_problem
from planners.errors import GaplessError
from planners.model.problem import Scalar
from planners.model.work import Work
from planners.recompute import (
    LimitQuestion,
    RepeatableStep,
    answer_problem,
    choose_planners,
    device_rates,
    forward_choice_of,
    run_under_limit,
    staged_bound,
)
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


def answered(path: Path, step: RepeatableStep, limit: int) -> Decision:
    """Write the file of an answer of `greedy`, and return the decision of its sequence."""
    question = LimitQuestion(step, limit, Budget(), staged_bound(step, limit, Budget().started()))
    result = run_under_limit(question, *choose_planners("greedy"))
    assert result.sequence is not None
    write_problem(answer_problem(step, result.sequence, limit), path)
    return decision_of_sequence(step, result.sequence)


@pytest.mark.parametrize("name", SMALL_STEPS)
def test_the_file_of_an_answer_is_followed(name: str, tmp_path: Path) -> None:
    small, other = small_step(name), small_step(name)
    step = RepeatableStep(problem_of(record_step(small.loss_of)), device_rates("a100"))
    file = tmp_path / "within.json.gz"
    decision = answered(file, step, int(0.8 * peak_of(name)))
    # Another planner, and other rates, would decide otherwise.
    loss_of = KeptWithin(small.loss_of, str(file), planner="keep-all", strict=True)
    assert loss_of.decision().unit == decision.unit
    torch.manual_seed(1)
    loss_of().backward()
    torch.manual_seed(1)
    other.loss_of().backward()
    assert all(map(torch.equal, small.gradients(), other.gradients()))


# Other kernels, in place of those of the file or besides, and what runs again of them.
OTHERS: dict[str, tuple[str, str, int]] = {
    "the same": ("a b+ c d+", "0101", 0),
    "other work before": ("input x y+ a b+ c d+", "0101", 1),
    "one of another name": ("a other+ c d+", "0101", 0),
    "one that is several here": ("a+ other+ d", "1110", 0),
    "several that are one here": ("a b+ b2 b3+ c d+", "0101", 1),
    "as many of other names": ("a x+ y d+", "0101", 0),
    "some run again of another number": ("a x+ y z d+", "0001", 1),
    "none": ("x+ y+", "1111", 0),
    "nothing runs again": ("a b c d", "0000", 0),
}


@pytest.mark.parametrize(("words", "again", "lacking"), OTHERS.values(), ids=OTHERS)
def test_kernels_of_the_file_are_found_in_another_forward_pass(
    words: str, again: str, lacking: int
) -> None:
    ops = ["a", "b", "c", "d", "loss"]
    graph = Graph(
        op=ops, stream=[0] * 5, producer=[0, 1, 2, 3], consumers=[[1, 4], [2, 4], [3, 4], [4]],
        work=Work(flops=[1] * 5, moved_bytes=[1] * 5, phase=[0] * 4 + [1], repeatable=[1] * 5),
    )  # fmt: skip
    step = RepeatableStep(Problem([1] * 4, graph=graph), device_rates("h100"))
    said = {"limit": 1, "forward_pass": words, "sent_tensors": 0}
    choice = forward_choice_of(Problem([1], [0], [1], origin=said))
    decision, missed = decision_of_choice(step, choice)
    assert ("".join(str(int(unit >= 0)) for unit in decision.unit), missed) == (again, lacking)


def test_a_choice_that_does_not_keep_the_limit_here_is_made_anew(tmp_path: Path) -> None:
    step = RepeatableStep(problem_of(record_step(small_step("bert").loss_of)), device_rates("h100"))
    file, limit = tmp_path / "within.json", int(0.8 * peak_of("bert"))
    write_problem(
        answer_problem(step, np.arange(step.graph.node_count, dtype=np.int32), limit), file
    )
    loss_of = KeptWithin(small_step("bert").loss_of, file, planner="greedy")
    with pytest.warns(UserWarning, match="which kernels run again is decided anew"):
        decision = loss_of.decision()
    assert 0 < decision.peak <= limit
    with pytest.raises(GaplessError, match=r"limit: 0 of 0 kernels .* are live at the peak"):
        KeptWithin(small_step("bert").loss_of, file, strict=True)()


@pytest.mark.parametrize(
    ("origin", "said"),
    [
        ({}, r"fields origin.limit, origin.forward_pass .* found None, None and None"),
        ({"limit": 1, "forward_pass": "a+", "sent_tensors": 2}, "found 2 tensors that are sent"),
    ],
)
def test_a_file_that_has_no_choice_to_follow_is_refused(
    origin: dict[str, Scalar], said: str, tmp_path: Path
) -> None:
    file = tmp_path / "within.json"
    write_problem(Problem([1], [0], [1], origin=origin), file)
    with pytest.raises(GaplessError, match=said):
        KeptWithin(small_step("bert").loss_of, file)


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
