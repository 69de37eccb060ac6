"""Did two runs compute the same bits, and if not, where do they first differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain, zip_longest

from gpu_runtime.training.run_result import RunResult
from gpu_runtime.training.training_run import Allocator


@dataclass(frozen=True)
class BitDifference:
    """Where a run first left another."""

    allocator: Allocator
    reference: Allocator
    # Such as ``"step 2, gradient of bert.pooler.weight"``.
    where: str
    # The run's value and the reference's; ``"nothing"`` where one has none.
    found: str
    expected: str

    def __str__(self) -> str:
        """Return one line."""
        return (
            f"{self.allocator} differs from {self.reference} first in {self.where}: "
            f"{self.found}, not {self.expected}"
        )


@dataclass(frozen=True)
class Agreement:
    """What was compared and what differs."""

    # The first is the one that the others are compared with.
    compared: tuple[Allocator, ...]
    # How many values of each kind a run has.
    steps: int
    losses: int
    # How many of the losses are infinite or no number: of what follows them little can differ.
    losses_not_finite: int
    gradients: int
    parameters: int
    buffers: int
    # The first one of each run that differs.
    differences: tuple[BitDifference, ...]

    @property
    def is_bit_identical(self) -> bool:
        """Whether no run differs."""
        return not self.differences


# Digests in full would fill the line.
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
    # As in :class:`RunResult`, where a NaN also has its bits.
    return loss.lstrip("-").startswith(("nan", "inf"))


def _first_difference(
    allocator: Allocator, values: dict[str, str], reference: Allocator, expected: dict[str, str]
) -> BitDifference | None:
    # What the run has beyond the reference comes last.
    for where in {**expected, **values}:
        its, theirs = values.get(where), expected.get(where)
        if its != theirs:
            return BitDifference(allocator, reference, where, _shown(its), _shown(theirs))
    return None


def _shown(value: str | None) -> str:
    return "nothing" if value is None else value[:_SHOWN]


def _values(result: RunResult) -> dict[str, str]:
    """Return what was computed by where, in the order in which it was computed."""
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
