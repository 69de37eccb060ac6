"""The planners that studies bring along, as they register them."""

from __future__ import annotations

import ast
import sys
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from evaluation.study.study_file import FOLDER as STUDIES
from instances.synthetic import training_graph, training_trace
from planners import Budget, Graph, Plan, Problem, Status, bounds_of, registry, run, run_online
from planners.files.formats import read_requests
from planners.model.online_result import OnlineDevice, OnlineTerms
from planners.model.request_sequence import RequestAction, RequestSequence
from planners.registry import choose_online, get
from tests.definitions import unsafe_by_paths
from tests.gpu_runtime.verification.devices.cuda.cuda_on_host import on_host

PROBLEM = training_graph(60, streams=4, chains=4, chain_length=3, seed=1)
BRIEFLY = "search_seconds=0.2:plan_seconds=0.1"
# Two of one size: whoever comes first takes the bottom, and only then is there room for the last.
TIED = Problem([4, 4, 6, 1], [0, 1, 3, 0], [2, 4, 5, 5])
PLUGINS = (
    "unsafe_pairs", "merged_chains", "last_iteration", "stream_counts", "reorderings",
    "planning_parts", "planned_files", "production_planners", "allocator_experiments",
    "device_calls", "verified_plans", "price_of_reuse", "two_banks", "bytes_against_waits",
)  # fmt: skip


@pytest.fixture(autouse=True)
def own_planners(own_registry: None) -> None:  # noqa: ARG001
    for name in PLUGINS:
        registry.load_plugin(STUDIES / f"{name}.py")


@pytest.mark.parametrize(
    ("problem", "planner"),
    [
        (Problem([1], [0], [1]), "unsafe-pairs"),
        (Problem([1], [0], [1]), "stream-counts"),
        (Problem([1], [0], [1]), "reorderings"),
        (Problem([1], [0], [1]), "bytes-against-waits"),
        (Problem([1, 2], unsafe_pairs=[(0, 1)]), "planning-parts"),
    ],
)
def test_problems_without_graph_or_steps_are_unsupported(problem: Problem, planner: str) -> None:
    assert run(problem, planner).status is Status.UNSUPPORTED


def test_waits_save_bytes() -> None:
    found = run(PROBLEM, "bytes-against-waits:seconds=0.2").statistics
    peaks = [found[f"peak_{count}"] for count in (0, 1, 2, 5, 10, 20)]
    assert peaks == sorted(peaks, key=int, reverse=True)
    assert int(found["least"]) <= int(found["bound_20"]) <= int(peaks[-1]) < int(peaks[0])
    assert found["bound_0"] == found["heaviest"]


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
def test_merged_chains_support_no_other_constraint(field: dict[str, object]) -> None:
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


def test_the_last_quarter_stands_for_the_last_iteration_of_a_run_without_marks() -> None:
    unmarked = np.empty(0, dtype=np.int64)
    for grown, calls in ((5, 0), (6, 1)):
        # Of 8 requests the last 2 count.
        sequence = requests(4)
        size = sequence.size.copy()
        size[grown] = 64 << 20
        sequence = replace(sequence, size=size, iteration_rows=unmarked)
        assert sum(late_calls(sequence, "pytorch-caching").values()) == calls


def test_unsafe_pairs_and_streams_are_counted() -> None:
    assert PROBLEM.graph is not None
    statistics = run(PROBLEM, "stream-counts").statistics
    assert statistics["unsafe_pairs"] == len(unsafe_by_paths(PROBLEM.graph))
    assert statistics["streams"] == 4


def test_a_stream_that_waits_for_nothing_is_open() -> None:
    graph = Graph(op=["mul"] * 3, stream=[0, 1, 2], producer=[0, 1, 2], consumers=[[], [2], []])
    statistics = run(Problem([1, 1, 1], graph=graph), "stream-counts").statistics
    # The third waits for the second, and the second for none.
    assert (statistics["open_streams"], statistics["following_streams"]) == (1, 2)


@pytest.mark.parametrize("streams", ["kept", "one"])
def test_bounds_of_both_orders_are_said(streams: str) -> None:
    result = run(PROBLEM, f"reorderings:streams={streams}:{BRIEFLY}")
    assert result.status in (Status.OPTIMAL, Status.FEASIBLE)
    said = {name: value for name, value in result.statistics.items() if isinstance(value, int)}
    assert said["least"] <= said["reordered"] <= said["given"]
    assert said["reordered"] <= said["reordered_peak"]
    assert said["given"] <= said["given_peak"]


@pytest.mark.parametrize(("streams", "bound"), [(1, "lifetime"), (4, "antichain")])
def test_every_part_is_timed_beside_a_greedy_plan(streams: int, bound: str) -> None:
    problem = training_graph(60, streams=streams, seed=1)
    result = run(problem, "planning-parts")
    assert result.status in (Status.OPTIMAL, Status.FEASIBLE)
    assert result.peak == run(problem, "greedy-size-first").peak
    assert result.statistics["bound"] == bound
    names = ("safety_seconds", "bound_seconds", "referee_seconds")
    assert all(float(result.statistics[name]) >= 0 for name in names)


@pytest.mark.parametrize("file", ["json", "csv"])
def test_a_process_of_its_own_reads_plans_and_judges(file: str) -> None:
    problem = training_trace(60, seed=1)
    result = run(problem, get("planned-file", file=file))
    assert result.status in (Status.OPTIMAL, Status.FEASIBLE)
    assert result.peak == run(problem, "greedy-size-first").peak
    assert result.statistics["file"] == file
    assert float(result.statistics["processor_seconds"]) > 0
    # Python and NumPy alone are more.
    assert int(result.statistics["peak_resident_bytes"]) > 1 << 24
    assert int(result.statistics["file_bytes"]) > 500


def test_the_published_rule_takes_large_tensors_first_and_of_equal_ones_the_last() -> None:
    result = run(Problem([2, 3, 3, 2], [0, 1, 0, 0], [2, 2, 1, 2]), "tflite-micro-greedy")
    assert result.plan is not None
    assert result.plan.offsets.tolist() == [5, 0, 0, 3]


def test_a_package_that_is_missing_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("tinygrad.")]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "tinygrad", None)
    result = run(TIED, "tinygrad")
    assert result.status is Status.UNSUPPORTED
    assert "pip install 'gapless[compilers]'" in result.reason


@pytest.mark.compilers
@pytest.mark.parametrize(
    "name",
    [
        "executorch-greedy", "executorch-greedy:order=shuffled", "inductor-pools", "omnimalloc",
        "omnimalloc:allocator=supermalloc", "onnxsim", "tinygrad", "vela-greedy",
        "vela-hill-climbing",
    ],
)  # fmt: skip
def test_plans_pass_the_referee(name: str) -> None:
    result = run(TIED, name, Budget(seed=3))
    assert result.status in (Status.OPTIMAL, Status.FEASIBLE), result.reason


@pytest.mark.parametrize("device", [OnlineDevice.LEDGER, OnlineDevice.SIMULATED])
def test_an_experiment_is_seen_after_a_step(device: OnlineDevice) -> None:
    def blocks(step: int, allocator: str, name: str = "kept-apart") -> str:
        requests = read_requests(STUDIES / "allocator-experiments" / f"{name}.json")
        chosen = f"experiment:step={step}:allocator={allocator}"
        [row] = run_online(requests, chosen, OnlineTerms(device)).rows
        # Whichever step is looked at, the answer is that of all steps.
        assert row.valid, row.reason
        assert row.result.statistics["left"] == 0
        return str(row.result.statistics["layout"])

    assert blocks(1, "pytorch-expandable", "page-by-page") == "(16 active, 4 free)"
    assert blocks(2, "pytorch-caching") == "2 x (16 active) + 2 x (16 free)"
    # Each pair of a pool and a stream has its own segment.
    assert blocks(7, "pytorch-expandable:pools=2:streams=3") == "6 x (100 free)"


def test_device_calls_are_timed_by_kind() -> None:
    words = "total_mib=8:rounds=2:device=simulated"
    found = run(TIED, f"device-calls:piece_mib=4:{words}").statistics
    assert found["pieces"] == 2
    kinds = {name for name, its in found.items() if name.endswith("_seconds") and its > 0}
    assert len(kinds) == len(found) - 2 == 10


def test_right_plans_pass_and_wrong_ones_are_seen() -> None:
    graph = training_graph(200, streams=5, seed=3)
    problem = Problem(graph.size // 512, graph=graph.graph)
    right, shifted, ignored, attacked = (
        run(problem, f"verified-plan:plan={plan}:device=simulated:trials=6").statistics
        for plan in ("right", "moved", "ignored", "attacked")
    )
    assert right["unsafe_pairs"] == right["seen"] == ignored["directed"] == 0
    assert shifted["injected"] == shifted["caught"] == 20
    assert ignored["unsafe_pairs"] > ignored["seen"] > 0
    assert attacked["directed"] > 0
    assert not any(its["false_alarms"] for its in (right, shifted, ignored, attacked))


def test_the_least_cost_of_a_report_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DSA_RP", str(tmp_path))
    (tmp_path / "minimalloc-dsa-rp-v1-summary.csv").write_text(
        "corpus_source_path,features,capacity,best_capacity_overflow,best_reuse_cost,"
        "certified_optimal\n"
        "a.csv,reuse_edges=1,8,0,9,false\na.csv,reuse_edges=1,8,0,7,false\n"
        "a.csv,reuse_edges=1,8,4,3,true\na.csv,reuse_edges=1,9,0,1,true\n"
        "a.csv,reuse_edges=2,8,0,1,true\na.csv,reuse_edges=1,8,,,false\n"
    )
    (tmp_path / "dsa-rp-v1-paired-objectives.csv").write_text(
        "source_path,source_instance,edges,best_known_cost,optimum_proven\n"
        "a.py,k,1,4,true\na.py,k,2,5,true\nb.py,k,1,6,true\nc.py,k,1,6,true\nc.py,k,1,7,true\n"
    )
    origin = {"corpus_source_path": "a.py", "dsa_rp_source_instance": "k",
              "dsa_rp_edge_policy": "soft_v1"}  # fmt: skip
    # A planner that takes a problem whole knows its origin, with classes too.
    two = {"start": [0, 1], "end": [1, 2], "reuse_prices": [(0, 1, 1)], "exclusive": [(0, 1)]}
    kernel = Problem([1, 1], **two, origin=origin)
    lifted = Problem([1, 1], **two, capacity=8, origin={"corpus_source_path": "a.csv"})
    for problem, found in (
        (kernel, {"reported": 4, "reported_proven": True}),
        (lifted, {"reported": 7, "reported_proven": False}),
        (lifted.with_capacity(7), {}),
        (Problem([1, 1], **two, origin={**origin, "corpus_source_path": "c.py"}), {}),
    ):
        assert run(problem, "reported-cost").statistics == found
    monkeypatch.delenv("DSA_RP")
    assert run(kernel, "reported-cost").status is Status.UNSUPPORTED


def test_no_choice_for_the_slow_bank_is_below_the_bound() -> None:
    @registry.register("half-slow", memories=True)
    def half_slow(problem: Problem, budget: Budget) -> Plan:  # noqa: ARG001
        begins = [memory.begin for memory in problem.memories]
        return Plan.of(problem, [begins[tensor % 2] for tensor in range(problem.tensor_count)])

    halves = Problem([4, 4], [0, 0], [1, 1])
    found = run(halves, "two-banks:planner=half-slow:fast=0.5").statistics
    assert found == {"fits": True, "at_least": 4, "proven": False, "slow_bytes": 4}
    assert not run(halves, "two-banks:planner=half-slow:fast=0.4").statistics["fits"]
    reached = 0
    for seed in range(40):
        problem = training_trace(9, seed=seed)
        lifetime = max(its.bytes for its in bounds_of(problem) if its.name == "lifetime")
        steps = [(problem.start <= step) & (step < problem.end) for step in problem.start.tolist()]
        least = min(
            int(problem.size[slow.astype(int)].sum())
            for count in range(10)
            for slow in map(np.array, combinations(range(9), count))
            for kept in [np.delete(problem.size, slow.astype(int))]
            if all(kept[np.delete(live, slow.astype(int))].sum() <= lifetime // 2 for live in steps)
        )
        bound = run(problem, "two-banks:planner=half-slow").statistics["at_least"]
        assert bound <= least, seed
        reached += bound == least > 0
    assert reached >= 3


def kernel_rates() -> dict[str, float]:
    registry.load_plugin(STUDIES / "verified_plans.py")
    rates = run(TIED, "verifying-kernel:size_mib=1:total_mib=2").statistics
    return {name: round(float(rate) / 1e9, 2) for name, rate in rates.items()}


def test_the_kernel_is_measured_beside_a_copy() -> None:
    said = on_host(f"from {__name__} import kernel_rates; print(kernel_rates())")
    # The host's driver takes a millisecond for each launch and each copy, which moves both ways.
    rates = {"stamp_rate": 1.05, "check_rate": 1.05, "same_copy_rate": 2.1}
    assert ast.literal_eval(said) == rates
