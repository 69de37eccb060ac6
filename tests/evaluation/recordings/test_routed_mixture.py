"""A mixture whose routing is drawn: sizes of the moment in its experts, all else as ever."""

from __future__ import annotations

import pytest

from evaluation.recordings.routed_mixture import RoutedMixture
from instances.extract.eager.trace_settings import TraceSettings
from instances.traces.allocation_trace import AllocationTrace
from instances.traces.dynamic_requests import find_dynamic_requests
from instances.traces.iterations import iteration_phases

pytestmark = pytest.mark.torch

LOOP = TraceSettings(3, precision="bfloat16")


def small_mixture(*, checkpointing: bool) -> RoutedMixture:
    return RoutedMixture(checkpointing, layers=1, experts=4, batch=1, seq=64, loop=LOOP)


@pytest.fixture(scope="module", params=[False, True], ids=["N", "R"])
def traced(request: pytest.FixtureRequest) -> AllocationTrace:
    return small_mixture(checkpointing=request.param).trace()


def test_what_varies_is_in_sparse_blocks(traced: AllocationTrace) -> None:
    dynamic = find_dynamic_requests(traced, 2)
    modules = {traced.module_names[module] for module in traced.alloc_module[dynamic]}
    assert {name.split(".layers.0.")[-1].split(".")[0] for name in modules} == {"mlp"}
    assert any(".experts.3." in name for name in modules)
    counts = {sum(map(len, iteration_phases(traced, step))) for step in (1, 2)}
    assert len(counts) == 1


def test_what_is_recomputed_is_dealt_as_before() -> None:
    trace = small_mixture(checkpointing=True).trace()
    forward, backward, _ = iteration_phases(trace, 2)
    dynamic = find_dynamic_requests(trace, 2)[forward]
    assert dynamic.any()
    assert set(trace.size[forward[dynamic]].tolist()) <= set(trace.size[backward].tolist())
