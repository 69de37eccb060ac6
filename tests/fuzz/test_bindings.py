"""Some thousand hostile calls; more of them by hand, with ``python -m tests.fuzz.bindings``."""

from __future__ import annotations

import enum
from types import ModuleType

import pytest

import gpu_runtime._core
import planners._core
from tests.fuzz import planners_calls, runtime_calls
from tests.fuzz.bindings import CASES_A_CHILD, run_cases

pytestmark = pytest.mark.core

SEED = 13
CASES = {"planners": 1600, "gpu_runtime": 800}


@pytest.mark.parametrize(
    ("core", "first"),
    [(core, first) for core, cases in CASES.items() for first in range(0, cases, CASES_A_CHILD)],
)
def test_no_argument_ends_the_process(core: str, first: int) -> None:
    outcome = run_cases(core, SEED, first, CASES_A_CHILD)
    assert not outcome.failure, outcome.failure
    assert outcome.calls > CASES_A_CHILD
    assert outcome.never_answered <= {"CudaMemory"}  # where there is no driver


def test_what_ends_a_process_is_told() -> None:
    outcome = run_cases("planners", SEED, -1, 1)
    assert "--core planners --seed 13 --first -1 --count 1" in outcome.failure
    assert "exit status -6 at abort()" in outcome.failure


@pytest.mark.parametrize(
    ("core", "calls", "left_out"),
    [
        (planners._core, planners_calls.CALLS, {}),
        (gpu_runtime._core, runtime_calls.CALLS, runtime_calls.LEFT_OUT),
    ],
    ids=CASES,
)
def test_every_exported_name_is_called_or_left_out_for_a_reason(
    core: ModuleType, calls: dict[object, tuple[str, ...]], left_out: dict[str, str]
) -> None:
    listed = {name for names in calls.values() for name in names}
    assert not listed & left_out.keys()
    assert sorted(listed | left_out.keys()) == sorted(exported(core))
    assert all(left_out.values())


def exported(core: ModuleType) -> set[str]:
    """Return the names of a core: functions, constants, classes, and what is in these."""
    names = {name for name in vars(core) if not name.startswith("_")}
    for name in tuple(names):
        kind = getattr(core, name)
        if isinstance(kind, type) and not issubclass(kind, enum.Enum):
            names |= {f"{name}.{of}" for of in vars(kind) if not of.startswith("_")}
    return names
