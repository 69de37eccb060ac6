"""Compares the bits of two runs, and finds the first difference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain, zip_longest

from gpu_runtime.training.run_result import RunResult
from gpu_runtime.training.training_run import Allocator


@dataclass(frozen=True)
class BitDifference:
    """The first value in which a run differs from the reference."""

    allocator: Allocator
    reference: Allocator
    # Such as ``"step 2, gradient of bert.pooler.weight"``.
    where: str
    # The run's value and the reference's; ``"nothing"`` if a run lacks the value.
    found: str
    expected: str

    def __str__(self) -> str:
        return (
            f"{self.allocator} differs from {self.reference} first in {self.where}: "
            f"{self.found}, not {self.expected}"
        )


@dataclass(frozen=True)
class Agreement:
    """The values that were compared, and the differences."""

    # The first is the reference.
    compared: tuple[Allocator, ...]
    # Number of values of each kind in a run.
    steps: int
    losses: int
    # Number of losses that are infinite or NaN: values after them can hardly differ.
    losses_not_finite: int
    gradients: int
    parameters: int
    buffers: int
    # The first difference of each run that differs.
    differences: tuple[BitDifference, ...]

    @property
    def is_bit_identical(self) -> bool:
        return not self.differences


# Characters of a digest that a line shows.
_SHOWN = 16


def compare(results: Mapping[Allocator, RunResult]) -> Agreement:
    """Compare every run with the first, value by value in the order in which a run has them."""
    reference, first = next(iter(results.items()))
    expected = _values(first)
    differences = (
        _first_difference(allocator, _values(result), reference, expected)
        for allocator, result in results.items()
    )
    return Agreement(
        compared=tuple(results),
        steps=len(first.losses),
        losses=sum(map(len, first.losses)),
        losses_not_finite=sum(map(_is_not_finite, chain.from_iterable(first.losses))),
        gradients=sum(map(len, first.gradients)),
        parameters=len(first.parameters),
        buffers=len(first.buffers),
        differences=tuple(found for found in differences if found is not None),
    )


def _is_not_finite(loss: str) -> bool:
    # A NaN is followed by its bits, as in :class:`RunResult`.
    return loss.lstrip("-").startswith(("nan", "inf"))


def _first_difference(
    allocator: Allocator, values: dict[str, str], reference: Allocator, expected: dict[str, str]
) -> BitDifference | None:
    # Values that the reference lacks come last.
    for where in {**expected, **values}:
        its, theirs = values.get(where), expected.get(where)
        if its != theirs:
            return BitDifference(allocator, reference, where, _shown(its), _shown(theirs))
    return None


def _shown(value: str | None) -> str:
    return "nothing" if value is None else value[:_SHOWN]


def _values(result: RunResult) -> dict[str, str]:
    """Return the computed values by their place, in the order of computation."""
    values = {}
    for step, (losses, gradients) in enumerate(
        zip_longest(result.losses, result.gradients, fillvalue=()), start=1
    ):
        for microbatch, loss in enumerate(losses, start=1):
            values[f"step {step}, loss of microbatch {microbatch}"] = loss
        for name, digest in dict(gradients).items():
            values[f"step {step}, gradient of {name}"] = digest
    for kind, named in (("parameter", result.parameters), ("buffer", result.buffers)):
        for name, digest in named.items():
            values[f"{kind} {name} at the end"] = digest
    return values
