"""The comparison of runs names the first value that differs, in the order of computation."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gpu_runtime.training.agreement import compare
from gpu_runtime.training.run_result import RunResult
from gpu_runtime.training.training_run import Allocator
from tests.gpu_runtime.training.run_results import CHECK, planned_check

OTHER = "ff" * 32


def changed_gradient(step: int, name: str) -> RunResult:
    gradients = [dict(named) for named in CHECK.gradients]
    gradients[step][name] = OTHER
    return replace(CHECK, gradients=tuple(gradients))


def test_equal_runs_agree_and_are_counted() -> None:
    found = compare({Allocator.DEFAULT: CHECK, Allocator.PLANNED: planned_check()})
    assert found.is_bit_identical
    assert found.compared == (Allocator.DEFAULT, Allocator.PLANNED)
    assert (found.steps, found.losses, found.gradients) == (2, 4, 4)
    assert (found.parameters, found.buffers) == (2, 1)


@pytest.mark.parametrize(
    ("result", "where"),
    [
        (replace(CHECK, losses=(CHECK.losses[0], ("0x1.2p+3", "nan"))),
         "step 2, loss of microbatch 2"),
        (changed_gradient(1, "b.weight"), "step 2, gradient of b.weight"),
        (replace(CHECK, parameters={**CHECK.parameters, "a.weight": OTHER}),
         "parameter a.weight at the end"),
        (replace(CHECK, buffers={"norm.mean": OTHER}), "buffer norm.mean at the end"),
    ],
)  # fmt: skip
def test_a_difference_is_named(result: RunResult, where: str) -> None:
    found = compare({Allocator.DEFAULT: CHECK, Allocator.EXPANDABLE: result})
    assert not found.is_bit_identical
    (difference,) = found.differences
    assert difference.where == where
    assert str(difference).startswith(f"expandable differs from default first in {where}: ")


def test_losses_that_are_not_finite_are_counted() -> None:
    losses = (("nan 0000c07f", "0x1.1p+3"), ("-inf", "inf"))
    result = replace(CHECK, losses=losses)
    found = compare({Allocator.DEFAULT: result, Allocator.PLANNED: result})
    assert found.is_bit_identical
    assert (found.losses, found.losses_not_finite) == (4, 3)
    assert compare({Allocator.DEFAULT: CHECK}).losses_not_finite == 0


def test_the_first_of_several_differences_is_named() -> None:
    result = replace(
        changed_gradient(0, "b.weight"),
        losses=(CHECK.losses[0], ("0x1p+0", "0x1p+0")),
        parameters=dict.fromkeys(CHECK.parameters, OTHER),
    )
    (difference,) = compare({Allocator.DEFAULT: CHECK, Allocator.PLANNED: result}).differences
    assert difference.where == "step 1, gradient of b.weight"
    assert difference.found == OTHER[:16]
    assert difference.expected == "22" * 8


def test_every_run_has_a_difference_of_its_own() -> None:
    found = compare(
        {
            Allocator.DEFAULT: CHECK,
            Allocator.EXPANDABLE: changed_gradient(1, "a.weight"),
            Allocator.PLANNED: changed_gradient(0, "a.weight"),
        }
    )
    assert [(it.allocator, it.where) for it in found.differences] == [
        (Allocator.EXPANDABLE, "step 2, gradient of a.weight"),
        (Allocator.PLANNED, "step 1, gradient of a.weight"),
    ]


def test_values_of_only_one_run_differ() -> None:
    without = replace(CHECK, gradients=({"b.weight": "22" * 32}, CHECK.gradients[1]))
    (missing,) = compare({Allocator.DEFAULT: CHECK, Allocator.PLANNED: without}).differences
    assert (missing.where, missing.found) == ("step 1, gradient of a.weight", "nothing")
    (extra,) = compare({Allocator.DEFAULT: without, Allocator.PLANNED: CHECK}).differences
    assert (extra.where, extra.expected) == ("step 1, gradient of a.weight", "nothing")
