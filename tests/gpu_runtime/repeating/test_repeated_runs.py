"""A step that computes results again has the bits of the step, and the peak of the model."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from evaluation.measuring.step_meter import cpu_peak_bytes
from gpu_runtime.repeating import (
    Decision,
    RepeatedRuns,
    decision_of_sequence,
    decision_of_units,
    problem_of,
    record_step,
)
from gpu_runtime.repeating.kernel_calls import operator_of
from planners.errors import GaplessError
from planners.recompute import RepeatableStep, device_rates
from tests.gpu_runtime.repeating.small_steps import (
    SMALL_STEPS,
    SmallStep,
    small_step,
)

pytestmark = pytest.mark.torch

STEPS = 2
# Units that a random decision chooses, of those that may run again.
SHARES = [0.3, 0.6, 1.0]


@cache
def repeatable(name: str) -> RepeatableStep:
    recorded = record_step(small_step(name).loss_of)
    return RepeatableStep(problem_of(recorded), device_rates("h100"))


def random_decision(name: str, share: float, seed: int) -> Decision:
    step = repeatable(name)
    drawn = np.random.default_rng(seed).random(step.unit_count) < share
    return decision_of_units(step, np.flatnonzero(step.is_repeatable & drawn))


def trained(small: SmallStep, decision: Decision | None, autocast: bool = False) -> list[Tensor]:
    """Return losses, gradients and the state of two steps."""
    torch.manual_seed(1)
    optimizer = torch.optim.SGD(small.module.parameters(), lr=0.1)
    found: list[Tensor] = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        runs = nullcontext() if decision is None else RepeatedRuns(decision, strict=True)
        # The backward pass of autocast's kernels is not its own, but programs have it there.
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            with runs:
                loss = small.loss_of()
            loss.backward()
        found += [loss.detach(), *small.gradients()]
        optimizer.step()
    return [*found, *small.state(), torch.rand(1)]


def same_bits(one: list[Tensor], other: list[Tensor]) -> bool:
    return len(one) == len(other) and all(map(torch.equal, one, other))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("name", SMALL_STEPS)
def test_bits_are_those_of_the_step(name: str, share: float, seed: int) -> None:
    decision = random_decision(name, share, seed)
    assert decision.repeated_count > 0
    assert same_bits(trained(small_step(name), decision), trained(small_step(name), None))


def run_once(small: SmallStep, decision: Decision | None) -> None:
    with nullcontext() if decision is None else RepeatedRuns(decision, strict=True):
        loss = small.loss_of()
    loss.backward()


@pytest.mark.parametrize("share", [0.0, *SHARES])
@pytest.mark.parametrize("name", SMALL_STEPS)
def test_peak_is_the_predicted_one(name: str, share: float) -> None:
    small, decision = small_step(name), random_decision(name, share, seed=5)
    small.module.zero_grad()
    measured = cpu_peak_bytes(lambda: run_once(small, decision if share else None))
    assert measured == pytest.approx(decision.peak, rel=1e-3)


def test_second_runs_are_in_the_order_of_the_model() -> None:
    """The peak is where the second of two results is made, and depends on which comes first."""
    first, second = torch.randn(1, 12_000), torch.randn(5_000, 2)
    weight = torch.randn(5_001, requires_grad=True)

    def loss_of() -> Tensor:
        small, large = (first * 2).sum(1), (second * 2).sum(1)
        return (torch.cat([small, large]) * weight).sum()

    assert_peak_is_predicted(loss_of)


def test_a_tensor_is_made_again_where_the_backward_pass_asks_for_it() -> None:
    """The backward pass asks for both factors, and then computes one gradient after the other."""
    given = torch.randn(4, 100, 100)
    shift, factor = (torch.randn(100, 100, requires_grad=True) for _ in range(2))

    def loss_of() -> Tensor:
        return (torch.mm(factor, (given * 2).sum(0) + shift) * 2).sum()

    assert_peak_is_predicted(loss_of)


def assert_peak_is_predicted(loss_of: Callable[[], Tensor]) -> None:
    """Run again all that may, and compare the peaks."""
    step = RepeatableStep(problem_of(record_step(loss_of)), device_rates("h100"))
    decision = decision_of_units(step, np.flatnonzero(step.is_repeatable))

    def run() -> None:
        with RepeatedRuns(decision, strict=True):
            loss = loss_of()
        loss.backward()

    assert cpu_peak_bytes(run) == decision.peak


def test_results_that_the_program_holds_are_not_made_again() -> None:
    weight = torch.randn(100, requires_grad=True)
    held = []

    def loss_of() -> Tensor:
        held.append(weight * 2)
        return held[-1].sin().sum()

    step = RepeatableStep(problem_of(record_step(loss_of)), device_rates("h100"))
    mul = step.graph.op.index("mul")
    assert not step.is_repeatable[step.unit_of_node[mul]]
    assert step.is_repeatable[step.unit_of_node[step.graph.op.index("sin")]]


def test_calls_that_change_a_buffer_do_not_run_again() -> None:
    weight, buffer = torch.randn(3, requires_grad=True), torch.zeros(3)

    def loss_of() -> Tensor:
        before = buffer.exp()
        buffer.add_(1)
        return (before * weight).sum() + (buffer.cos() * weight).sum()

    step = RepeatableStep(problem_of(record_step(loss_of)), device_rates("h100"))
    may = {op: step.is_repeatable[step.unit_of_node[n]] for n, op in enumerate(step.graph.op[:6])}
    assert (may["exp"], may["add_"], may["cos"]) == (False, False, True)


def test_gradients_are_added_up_in_place() -> None:
    weight, columns = torch.randn(400, 100, requires_grad=True), torch.randn(4, 100, 1)

    def loss_of() -> Tensor:
        twice = weight * 2
        return sum((twice @ column).sum() for column in columns)

    step = RepeatableStep(problem_of(record_step(loss_of)), device_rates("h100"))
    measured = cpu_peak_bytes(lambda: loss_of().backward())
    assert measured == pytest.approx(int(step.live_bytes.max()), rel=0.01)
    assert measured < 3 * weight.nbytes


def test_random_decisions_have_different_peaks() -> None:
    peaks = {random_decision("vit", share, 5).peak for share in (0.0, *SHARES)}
    assert len(peaks) > 2


class _Counting(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.kernels: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        operator = operator_of(func)
        self.kernels[operator.name] += operator.is_kernel
        return func(*args, **(kwargs or {}))


def counted(run: Callable[[], None]) -> Counter[str]:
    with _Counting() as counting:
        run()
    return counting.kernels


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("name", SMALL_STEPS)
def test_chosen_calls_run_again_once_and_no_others(name: str, share: float) -> None:
    decision = random_decision(name, share, seed=7)
    again = Counter(op for op, unit in zip(decision.ops, decision.unit, strict=True) if unit >= 0)
    # The running statistics are copied, so that a second run leaves them alone.
    again["clone"] += 2 * again["native_batch_norm"]
    small = small_step(name)
    without = counted(lambda: run_once(small, None))
    small.module.zero_grad()
    found = counted(lambda: run_once(small, decision))
    # Views of copies are made by these.
    for plumbing in ("empty", "set_"):
        del found[plumbing], without[plumbing], again[plumbing]
    assert found - without == +again
    assert not without - found


def test_bits_are_the_same_under_autocast() -> None:
    small = small_step("bert")

    def loss_of() -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return small.loss_of()

    step = RepeatableStep(problem_of(record_step(loss_of)), device_rates("h100"))
    decision = decision_of_units(step, np.flatnonzero(step.is_repeatable)[::2])
    assert decision.repeated_count > 10
    found = trained(small_step("bert"), decision, autocast=True)
    assert same_bits(found, trained(small_step("bert"), None, autocast=True))


def test_a_graph_that_is_kept_gives_its_gradients_twice() -> None:
    small, decision = small_step("gpt2"), random_decision("gpt2", 0.5, 1)
    with RepeatedRuns(decision, strict=True):
        loss = small.loss_of()
    loss.backward(retain_graph=True)
    first = small.gradients()
    small.module.zero_grad()
    loss.backward()
    assert same_bits(first, small.gradients())


def test_a_loss_without_a_backward_pass_leaves_nothing_behind() -> None:
    small, decision = small_step("vit"), random_decision("vit", 0.5, 1)
    made: list[weakref.ref[Any]] = []

    def watch(_module: object, _given: object, made_here: Tensor) -> None:
        made.append(weakref.ref(made_here.untyped_storage()))

    for module in small.module.modules():
        if isinstance(module, torch.nn.Linear):
            module.register_forward_hook(watch)
    gc.disable()
    try:
        with RepeatedRuns(decision, strict=True):
            loss = small.loss_of()
        assert any(reference() is not None for reference in made)
        del loss
        assert all(reference() is None for reference in made)
    finally:
        gc.enable()


def test_recording_changes_nothing() -> None:
    small = small_step("resnet")
    before, random_state = small.state(), torch.get_rng_state()
    record_step(small.loss_of)
    assert same_bits(before, small.state())
    assert torch.equal(random_state, torch.get_rng_state())
    assert not small.gradients()
    assert type(small.loss_of()) is Tensor


def other_ops(decision: Decision, place: int) -> Decision:
    ops = list(decision.ops)
    ops[place] = "sinh"
    return replace(decision, ops=tuple(ops))


def test_another_kernel_is_an_error_that_names_it() -> None:
    small, decision = small_step("bert"), random_decision("bert", 1.0, 0)
    message = f"kernel 30: sinh is needed, .*{decision.ops[30]}"
    with pytest.raises(GaplessError, match=message):
        run_once(small, other_ops(decision, 30))
    longer = replace(decision, ops=(*decision.ops, "sinh"), unit=(*decision.unit, -1))
    message = f"kernel {len(decision.ops)}: sinh .* found the end"
    with pytest.raises(GaplessError, match=message):
        run_once(small, longer)


@pytest.mark.parametrize("place", [0, 3, 11, 12, 30])
@pytest.mark.parametrize("name", ["bert", "resnet"])
def test_from_another_kernel_on_all_is_kept(name: str, place: int) -> None:
    decision = other_ops(random_decision(name, 1.0, 0), place)
    small, other = small_step(name), small_step(name)
    torch.manual_seed(1)
    with pytest.warns(UserWarning, match="what follows is kept"), RepeatedRuns(decision):
        loss = small.loss_of()
    loss.backward()
    torch.manual_seed(1)
    run_once(other, None)
    assert same_bits(small.gradients(), other.gradients())


def test_a_parameter_that_changed_before_a_second_run_is_an_error() -> None:
    small, decision = small_step("llama"), random_decision("llama", 1.0, 0)
    with RepeatedRuns(decision, strict=True):
        loss = small.loss_of()
    with torch.no_grad():
        for parameter in small.module.parameters():
            parameter.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def split_units(name: str, last: str) -> Decision:
    """Return a decision that runs units again without their last kernels of some name."""
    decision = random_decision(name, 1.0, 0)
    unit = [
        -1 if op == last else unit for op, unit in zip(decision.ops, decision.unit, strict=True)
    ]
    return replace(decision, unit=tuple(unit))


def test_a_change_in_place_belongs_to_the_unit() -> None:
    with pytest.raises(
        GaplessError, match=r"relu_ changes a tensor .* both have to be of one unit"
    ):
        run_once(small_step("resnet"), split_units("resnet", "relu_"))


def test_a_tensor_that_another_unit_changes_is_kept_from_then_on() -> None:
    decision = split_units("resnet", "relu_")
    small, other = small_step("resnet"), small_step("resnet")
    torch.manual_seed(1)
    with RepeatedRuns(decision):
        loss = small.loss_of()
    loss.backward()
    torch.manual_seed(1)
    run_once(other, None)
    assert same_bits(small.gradients(), other.gradients())


@pytest.mark.parametrize("last", ["add_", "mul_"])
def test_a_second_run_that_reads_what_was_changed_is_an_error(last: str) -> None:
    small = small_step("resnet")
    with RepeatedRuns(split_units("resnet", last)):
        loss = small.loss_of()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_a_saved_tensor_that_is_changed_is_an_error_as_in_pytorch() -> None:
    weight = torch.randn(4, requires_grad=True)

    def loss_of() -> Tensor:
        saved = (weight * 2).sigmoid()
        saved.add_(1)
        return saved.sum()

    step = RepeatableStep(problem_of(record_step(loss_of)), device_rates("h100"))
    for units in (np.array([], dtype=np.int64), np.flatnonzero(step.is_repeatable)):
        with RepeatedRuns(decision_of_units(step, units)):
            loss = loss_of()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


def test_a_sequence_with_copies_to_the_host_is_refused() -> None:
    step = replace(repeatable("vit"), may_send=True)
    sequence = step.late_sequence(step.choice(tensors=np.flatnonzero(step.is_sendable)))
    with pytest.raises(GaplessError, match="does not send them to the host"):
        decision_of_sequence(step, sequence)


def test_a_step_that_depends_on_values_is_refused() -> None:
    weight = torch.ones(3, requires_grad=True)

    def loss_of() -> Tensor:
        return weight[weight > 0].sum()

    with pytest.raises(GaplessError, match=r"depends on values of its data .* aten.nonzero"):
        record_step(loss_of)


def test_a_loss_without_parameters_is_refused() -> None:
    with pytest.raises(GaplessError, match="depends on a parameter"):
        record_step(lambda: torch.ones(3).sum())
