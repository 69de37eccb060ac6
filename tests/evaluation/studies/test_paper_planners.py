"""The planners that the papers' studies bring along."""

from __future__ import annotations

from copy import copy
from dataclasses import replace

import numpy as np
import pytest

from evaluation.study.study_file import FOLDER as STUDIES
from instances.synthetic import training_graph
from planners import GaplessError, Problem, Status, registry, run
from planners.model.online_result import OnlineTerms
from planners.model.request_sequence import RequestAction, RequestSequence
from planners.registry import choose_online
from tests.definitions import unsafe_by_paths

PROBLEM = training_graph(60, streams=4, chains=4, chain_length=3, seed=1)


@pytest.fixture(autouse=True)
def own_planners(monkeypatch: pytest.MonkeyPatch) -> None:
    # All that is known is there before, and the registries are as before when a test ends.
    choose_online("*")
    for known in ("PLANNERS", "ONLINE_ALLOCATORS"):
        monkeypatch.setattr(registry, known, copy(getattr(registry, known)))
    for name in ("unsafe_pairs", "merged_chains", "last_iteration"):
        registry.load_plugin(STUDIES / f"{name}.py")


def test_every_algorithm_finds_the_same_pairs() -> None:
    assert PROBLEM.graph is not None
    pairs = len(unsafe_by_paths(PROBLEM.graph))
    found = [
        run(PROBLEM, f"unsafe-pairs:algorithm={algorithm}:rounds=2").statistics
        for algorithm in ("1", "1opt", "2", "clocks")
    ]
    assert [statistics["unsafe_pairs"] for statistics in found] == [pairs] * 4
    assert len({statistics["relation"] for statistics in found}) == 1
    assert found[0]["streams"] == 4


def test_another_graph_has_another_digest() -> None:
    other = training_graph(60, streams=4, seed=2)
    first, second = (run(each, "unsafe-pairs").statistics for each in (PROBLEM, other))
    assert first["relation"] != second["relation"]


def test_lifetimes_alone_are_not_supported() -> None:
    assert run(Problem([1], [0], [1]), "unsafe-pairs").status is Status.UNSUPPORTED


@pytest.mark.parametrize("settings", ["", ":order=unsafe", ":fit=best", ":objects=true"])
def test_merged_chains_make_a_valid_plan(settings: str) -> None:
    result = run(PROBLEM, f"merged-chains{settings}")
    assert result.status in (Status.OPTIMAL, Status.FEASIBLE)


def test_a_merged_chain_is_needed_whenever_a_member_is() -> None:
    # Two members that are never alive together, and a tensor beside each of them.
    problem = Problem([4, 1, 4, 1], [0, 2, 2, 0], [2, 4, 4, 2], contiguous=[(0, 1)])
    assert run(problem, "greedy-size-first").peak == 5
    merged = run(problem, "merged-chains")
    assert merged.plan is not None
    assert np.array_equal(merged.plan.offsets[:2], [0, 4])
    assert merged.peak == 9


@pytest.mark.parametrize("field", [{"alignment": [4, 1]}, {"pinned": {0: 0}}])
def test_what_a_merged_chain_cannot_have(field: dict[str, object]) -> None:
    problem = Problem([4, 4], [0, 0], [1, 1], **field)  # type: ignore[arg-type]
    assert run(problem, "merged-chains").status is Status.UNSUPPORTED


def requests(iterations: int, sizes: tuple[int, ...] = (3, 5)) -> RequestSequence:
    """Return a loop that asks for blocks of whole MiB, one after the other, and frees each."""
    size = np.array(sizes * iterations, dtype=np.int64) << 20
    number = np.arange(len(size))
    actions = [RequestAction.ALLOCATE, RequestAction.FREE_COMPLETED]
    return RequestSequence(
        "loop",
        action=np.tile(actions, len(size)),
        request=np.repeat(number, 2),
        event=np.arange(2 * len(size)),
        size=size,
        stream=np.zeros_like(size),
        iteration_rows=np.arange(iterations) * 2 * len(sizes),
    )


def late_calls(sequence: RequestSequence, allocator: str) -> dict[str, int]:
    [chosen] = choose_online(f"calls-in-last-iteration:allocator={allocator}")
    result = chosen.info.build(**chosen.parameters)(sequence, OnlineTerms())
    return dict(result.device_calls)


@pytest.mark.parametrize("allocator", ["pytorch-caching", "gmlake"])
def test_a_loop_that_repeats_needs_the_device_no_more(allocator: str) -> None:
    assert late_calls(requests(1 + 1), allocator) == {}


def test_only_calls_of_the_last_iteration_count() -> None:
    # The last iteration asks for a block that no earlier one had.
    sequence = requests(3)
    grown = sequence.size.copy()
    grown[-1] = 64 << 20
    calls = late_calls(replace(sequence, size=grown), "pytorch-caching")
    assert sum(calls.values()) == 1


def test_a_run_without_iterations_is_refused() -> None:
    with pytest.raises(GaplessError, match="iterations are needed, found none"):
        late_calls(replace(requests(2), iteration_rows=np.zeros(1, dtype=np.int64)), "gmlake")
