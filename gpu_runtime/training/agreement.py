"""Did two runs compute the same bits, and if not, where do they first differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest

from gpu_runtime.training.answer import CheckAnswer
from gpu_runtime.training.job import Allocator


@dataclass(frozen=True)
class Difference:
    """Where a run first left another.

    Parameters
    ----------
    allocator, reference
        Whose runs.
    where
        Such as ``"step 2, gradient of bert.pooler.weight"``.
    found, expected
        The run's value and the reference's; ``"nothing"`` where one has none.
    """

    allocator: Allocator
    reference: Allocator
    where: str
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
    """What was compared and what differs.

    Parameters
    ----------
    compared
        The first is the one that the others are compared with.
    steps, losses, gradients, parameters, buffers
        How many values of each a run has.
    differences
        The first one of each run that differs.
    """

    compared: tuple[Allocator, ...]
    steps: int
    losses: int
    gradients: int
    parameters: int
    buffers: int
    differences: tuple[Difference, ...]

    @property
    def is_bit_identical(self) -> bool:
        """Whether no run differs."""
        return not self.differences


# Digests in full would fill the line.
_SHOWN = 16

Value = tuple[str, str]


def compare(answers: Mapping[Allocator, CheckAnswer]) -> Agreement:
    """Compare every run with the first.

    Parameters
    ----------
    answers
        At least one.

    Returns
    -------
    Agreement
        Values are compared in the order in which a run has them.
    """
    reference, first = next(iter(answers.items()))
    expected = list(_values(first))
    differences = []
    for allocator, answer in answers.items():
        difference = _first_difference(allocator, answer, reference, expected)
        if difference is not None:
            differences.append(difference)
    return Agreement(
        compared=tuple(answers),
        steps=len(first.losses),
        losses=sum(map(len, first.losses)),
        gradients=sum(map(len, first.gradients)),
        parameters=len(first.parameters),
        buffers=len(first.buffers),
        differences=tuple(differences),
    )


def _first_difference(
    allocator: Allocator, answer: CheckAnswer, reference: Allocator, expected: list[Value]
) -> Difference | None:
    for its, theirs in zip_longest(_values(answer), expected):
        if its != theirs:
            where = its[0] if its is not None else theirs[0]
            # Of two that are not at the same place, the reference's was passed over.
            if its is not None and theirs is not None and its[0] != theirs[0]:
                where, its = theirs[0], None
            return Difference(allocator, reference, where, _shown(its), _shown(theirs))
    return None


def _shown(value: Value | None) -> str:
    return "nothing" if value is None else value[1][:_SHOWN]


def _values(answer: CheckAnswer) -> Iterator[Value]:
    """Yield where and what, in the order in which it was computed."""
    for step, (losses, gradients) in enumerate(
        zip_longest(answer.losses, answer.gradients, fillvalue={})
    ):
        for microbatch, loss in enumerate(losses):
            yield f"step {step + 1}, loss of microbatch {microbatch + 1}", loss
        for name, digest in gradients.items():
            yield f"step {step + 1}, gradient of {name}", digest
    for name, digest in answer.parameters.items():
        yield f"parameter {name} at the end", digest
    for name, digest in answer.buffers.items():
        yield f"buffer {name} at the end", digest
