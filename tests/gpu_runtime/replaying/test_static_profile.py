"""What two iterations tell of the others: which requests are static, and when dynamic ones live."""

from __future__ import annotations

import numpy as np
import pytest

from gpu_runtime.replaying.static_profile import NO_TENSOR, StaticProfile, profile_static_requests
from instances.traces.allocation_trace import AllocationTrace, Phase
from instances.traces.trace_requests import requests_of_trace
from tests.gpu_runtime.replaying.random_training import KIB, random_training

STEPS = 3
# In each step: a static request around two of other sizes, and another static one.
#
#   event of step   0   1   2   3   4   5   6   7
#   static              [-----------------------)
#   dynamic                 [---)
#   static                      [-------)
#   dynamic                                 [---)  (both end at once but for the order)
STATIC = (1000, 2000)
MODULES = ("model.first", "model.expert", "model.last", "model.new")


def profile(*, modules: bool, last_module: int = 1) -> StaticProfile:
    size, alloc, freed, made_in, freed_in = [7000], [0], [8 * STEPS + 2], [-1], [-1]
    for step in range(STEPS):
        at = 2 + 8 * step
        size += [STATIC[0], 30_000 + step, STATIC[1], 40_000 + step]
        alloc += [at, at + 1, at + 2, at + 5]
        freed += [at + 7, at + 3, at + 4, at + 6]
        made_in += [0, 1, 0, 1]
        freed_in += [2, 1, 0, 1 if step < STEPS - 1 else last_module]
    known = {"alloc_module": made_in, "free_module": freed_in, "module_names": MODULES}
    found = profile_static_requests(
        requests_of_trace(
            AllocationTrace(
                8 * STEPS + 2, size, alloc, freed, freed,
                mark_event=[2 + 8 * step for step in range(STEPS)],
                mark_phase=[Phase.FORWARD] * STEPS, mark_microbatch=[0] * STEPS,
                mark_iteration=range(STEPS), **(known if modules else {}),  # type: ignore[arg-type]
            )
        )
    )  # fmt: skip
    assert found is not None
    return found


def test_the_static_requests_are_those_of_two_iterations() -> None:
    found = profile(modules=False)
    # Steps: the row before, then those of one iteration.
    static = found.static
    assert static.size.tolist() == [7168, 1024, 2048]
    assert list(zip(static.start.tolist(), static.end.tolist(), strict=True)) == [
        (0, 9), (1, 8), (3, 5),
    ]  # fmt: skip
    assert static.phase_start is not None
    assert static.phase_start.tolist() == [-1, 0, 0]
    assert found.tensor.tolist() == [0, *[1, NO_TENSOR, 2, NO_TENSOR] * STEPS]


def test_without_modules_static_events_stand_for_layers() -> None:
    spans = profile(modules=False).span.tolist()
    assert spans[2:5:2] == [[1, 5], [5, 8]]
    assert spans[2:5] == spans[6:9] == spans[10:13]


def test_a_span_lasts_from_one_layer_to_the_other() -> None:
    # The expert's first and last events are those of its dynamic requests.
    assert profile(modules=True).span[[2, 4, 6, 8]].tolist() == [[2, 8]] * 4


def test_a_layer_that_was_not_profiled_has_no_time() -> None:
    spans = profile(modules=True, last_module=3).span.tolist()
    assert (spans[10], spans[12]) == ([2, 8], [0, 0])


def test_outside_of_modules_static_events_stand_for_layers() -> None:
    spans = profile(modules=True, last_module=-1).span.tolist()
    assert (spans[10], spans[12]) == ([2, 8], [5, 8])


def test_one_iteration_is_not_a_profile() -> None:
    assert profile_static_requests(requests_of_trace(random_training(0, steps=1))) is None


@pytest.mark.parametrize("seed", range(10))
def test_no_dynamic_request_is_taken_for_a_static_one(seed: int) -> None:
    requests = requests_of_trace(random_training(seed))
    found = profile_static_requests(requests)
    assert found is not None
    is_dynamic = requests.size % KIB > 0
    assert ((found.tensor == NO_TENSOR) == is_dynamic).all()
    assert (np.diff(found.span[is_dynamic]) > 0).all()
