"""Which remedies are sought, in which order they are shown, and what is said of the others."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from gpu_runtime.fitting.fit_answer import FitAnswer
from gpu_runtime.fitting.fit_report import fit_json, remedies_table
from gpu_runtime.fitting.largest_value import LargestValues
from gpu_runtime.fitting.rank_fit import LIVE, RankFit
from gpu_runtime.fitting.remedies import EIGHT_BITS, ON_HOST, Remedies, Remedy, seek_remedies
from gpu_runtime.fitting.traced_program import Traced
from instances.traces.allocation_trace import AllocationTrace, Role
from planners.errors import InstanceError
from tests.gpu_runtime.fitting.made_fits import made_fit

ROOM = 100
WITH_STATES = AllocationTrace(2, [8], [0], [2], [2], role=[Role.STATE], element_bytes=[4])
NOTHING = AllocationTrace(1, [], [], [], [])


def fit(caching: int, planned: int, trace: AllocationTrace = NOTHING, **changeable: int) -> RankFit:
    sizes = {LIVE: 10, "pytorch-caching": caching, "planned:planner=pressure": planned}
    return made_fit(sizes, ROOM, traced=Traced("net", trace, {}, [64], changeable))


def sought(
    now: RankFit,
    again: Callable[[Mapping[str, int]], RankFit] = lambda _: fit(90, 50),
    ranks: int | None = None,
    largest: LargestValues | None = None,
) -> Remedies:
    remedies = Remedies([now], ranks, largest)
    program: Any = SimpleNamespace(worst=again, replayed=lambda _: fit(150, 95))
    seek_remedies(remedies, program)
    return remedies


def test_sufficient_remedies_of_least_change_come_first() -> None:
    def again(changes: Mapping[str, int]) -> RankFit:
        return {"batch": fit(90, 50), "ranks": fit(80, 40)}.get(next(iter(changes)), fit(300, 200))

    given = {"batch": 9, "checkpointing": False, "selective": False}
    remedies = sought(fit(200, 120, WITH_STATES, **given), again, ranks=4)
    assert [list(row.cells) for row in remedies_table(remedies).rows] == [
        ["half the batch", "90 B", "90", "55.0 %", "50 B", "yes", "traced again with batch=4"],
        ["twice the ranks", "80 B", "80", "60.0 %", "40 B", "yes", "traced again with ranks=8"],
        [
            EIGHT_BITS, "150 B", "150", "25.0 %", "95 B", "under planned:planner=pressure",
            "replayed: 1 byte a state, a scale for 256, updates in place",
        ],
        [
            ON_HOST, "150 B", "150", "25.0 %", "95 B", "under planned:planner=pressure",
            "replayed: 8 B of states on the host: 8 B over the bus each step, 3.2e-10 s at 25 GB/s",
        ],
        [
            "a plan", "120 B", "120", "40.0 %", "120 B", "no",
            "planned memory in place of PyTorch's allocator",
        ],
        [
            "selective checkpointing", "300 B", "300", "-50.0 %", "200 B", "no",
            "traced again with checkpointing=True, selective=True",
        ],
        [
            "checkpointing", "300 B", "300", "-50.0 %", "200 B", "no",
            "traced again with checkpointing=True",
        ],
    ]  # fmt: skip
    assert remedies.left_out == []
    found = json.loads(fit_json(FitAnswer([remedies.now], remedies=remedies)))["remedies"]
    assert [one["reserved_peak"] for one in found["found"]] == [90, 80, 150, 150, 120, 300, 300]
    assert [one["fits"] for one in found["found"]] == [True, True, *[False] * 5]


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({"checkpointing": False}, ["checkpointing"]),
        ({"checkpointing": True, "selective": True}, ["checkpointing"]),
        ({"checkpointing": True, "selective": False}, []),
        ({}, []),
    ],
)
def test_settings_of_the_program_are_not_remedies(given: dict[str, int], names: list[str]) -> None:
    asked: list[Mapping[str, int]] = []

    def again(changes: Mapping[str, int]) -> RankFit:
        asked.append(changes)
        return fit(90, 50)

    found = [one.name for one in sought(fit(200, 120, **given), again).found]
    assert found == ["a plan", *names]
    if "selective" in given and names:
        assert asked == [{"checkpointing": True, "selective": False}]


def test_remedies_that_cannot_be_computed_have_reasons() -> None:
    def again(changes: Mapping[str, int]) -> RankFit:
        raise InstanceError(f"no room for {dict(changes)}")

    assert sought(fit(200, 120, batch=1)).left_out == [
        f"{EIGHT_BITS}: no optimizer of PyTorch was seen to keep wider states",
        "checkpointing: net has no such setting, and no parameter of this name",
        "half the batch: net has no parameter batch above 1",
    ]
    assert sought(fit(200, 120, batch=2), again).left_out[2:] == [
        "half the batch: no room for {'batch': 1}"
    ]


@pytest.mark.parametrize(("is_allocator", "least"), [(True, 200), (False, 120)])
def test_the_least_is_that_of_the_remedy_alone(*, is_allocator: bool, least: int) -> None:
    remedy = Remedy("", "", fit(200, 120), "pytorch-caching", is_allocator=is_allocator)
    assert remedy.least == least


def test_the_largest_value_that_fits_is_known_after_a_search() -> None:
    largest = LargestValues("seq", ROOM, 1, {64: fit(200, 120), 20: fit(99, 98)})
    (remedy,) = [one for one in sought(fit(200, 120), largest=largest).found if "seq" in one.name]
    assert (remedy.name, remedy.row.reserved_peak) == ("seq 20 in place of 64", 99)
