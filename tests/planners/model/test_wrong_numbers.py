"""Whatever is given for a number, a constructor takes it or says what it needs."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from planners import Budget, GaplessError, Graph, OnlineTerms, Plan, Problem, run
from planners.answers.isolated_planner import Isolation
from planners.files.recording_slice import RecordingSlice

NO_NUMBERS: list[Any] = [
    "1", b"1", 10**400, -(10**5000), math.nan, [1], True, 1j, Decimal(1), np.array([1, 2]),
    np.datetime64(1, "s"), object(), int,
]  # fmt: skip
NO_WHOLE = [*NO_NUMBERS, 1.5, math.inf, np.float64(1), np.uint64(1 << 63)]


def three(**fields: Any) -> Problem:
    return Problem([4, 2, 3], [0, 0, 2], [2, 4, 4], **fields)


FIELDS: dict[str, tuple[Callable[[Any], object], list[Any]]] = {
    "time limit": (lambda value: Budget(time_limit_seconds=value), NO_NUMBERS),
    "deadline": (lambda value: Budget(deadline=value), NO_NUMBERS),
    "node limit": (lambda value: Budget(node_limit=value), NO_WHOLE),
    "threads": (lambda value: Budget(threads=value), NO_WHOLE),
    "seed": (lambda value: Budget(seed=value), NO_WHOLE),
    "budget": (lambda value: run(three(), "naive", value), NO_WHOLE),
    "memory limit": (lambda value: Isolation(memory_bytes=value), NO_WHOLE),
    "grace": (lambda value: Isolation(grace_seconds=value), NO_NUMBERS),
    "peak": (lambda value: Plan([0], value), NO_WHOLE),
    "offsets": (lambda value: Plan([value], 0), NO_WHOLE),
    "capacity": (lambda value: three(capacity=value), NO_WHOLE),
    "pinned": (lambda value: three(pinned={0: value}), NO_WHOLE),
    "pinned: {tensor": (lambda value: three(pinned=value), ["1", 10**400, 1.5, [1], int]),
    "dynamic": (lambda value: three(dynamic=value), [1, 10**400, 1.5, int, ["1"], [1]]),
    "origin": (lambda value: three(origin=value), NO_WHOLE),
    "graph": (lambda value: Problem([1], graph=value), NO_WHOLE),
    "graph.work": (
        lambda value: Graph(op=["a"], stream=[0], producer=[0], consumers=[[]], work=value),
        NO_WHOLE,
    ),
    "--round-to": (lambda value: RecordingSlice(round_to=value), NO_WHOLE),
    "field capacity": (lambda value: OnlineTerms(capacity=value), NO_WHOLE),
}


@pytest.mark.parametrize("field", FIELDS)
def test_a_value_that_is_not_a_number_is_refused_by_field(field: str) -> None:
    take, wrong = FIELDS[field]
    for value in wrong:
        with pytest.raises(GaplessError, match=rf"{re.escape(field)}.*found"):
            take(value)


def test_numbers_of_numpy_are_numbers() -> None:
    budget = Budget(np.float32(1.5), np.int64(3), np.uint8(2), np.int32(1))  # type: ignore[arg-type]
    assert run(three(), "auto", budget).peak == Plan([0, 4, 0], np.int64(6)).peak  # type: ignore[arg-type]
