"""Conversions from format to format: what is kept, what is refused, and the command line."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from instances.convert.__main__ import app
from instances.convert.conversion import Conversion, Selection, convert
from instances.convert.targets import TARGETS, find_target
from instances.formats.minimalloc_csv import read_minimalloc_plan
from instances.formats.pytorch_snapshot import read_pytorch_snapshot_trace
from instances.formats.recorded_trace import read_recorded_trace_file, write_recorded_trace
from instances.formats.stalloc_text import read_stalloc_trace
from instances.traces.allocation_trace import AllocationTrace
from planners import Graph, Problem, get, place, read_problem, run, write_plan, write_problem
from planners.errors import GaplessError, InstanceError, InvalidPlanError, UnknownPlannerError
from planners.files.problem_file import problem_digest
from tests.command_line import require_one_line, run_command

# Two iterations of two phases each; the first block stays from before to the end.
TRACE = AllocationTrace(
    20,
    [700, 10, 20, 30, 40],
    [0, 3, 5, 11, 13],
    [20, 8, 6, 18, 16],
    [20, 9, 6, 18, 17],
    address=[0x1000, 0x2000, 0x3000, 0x2000, 0x3000],
    mark_event=[2, 5, 10, 13], mark_phase=[0, 1, 0, 1],
    mark_microbatch=[0, 0, 0, 0], mark_iteration=[0, 0, 1, 1],
    name="run",
)  # fmt: skip
PROBLEM = Problem([4, 4, 2], [0, 0, 3], [3, 2, 5], name="toy", tensor_name=["a", "b", "c"])
GRAPH = Problem(
    [8, 8],
    graph=Graph(op=["x", "y"], stream=[0, 1], producer=[0, 1], consumers=[[1], []], control=[]),
)


@pytest.fixture
def npz(tmp_path: Path) -> Path:
    write_recorded_trace(TRACE, tmp_path / "run.npz")
    return tmp_path / "run.npz"


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    write_problem(PROBLEM, tmp_path / "toy.json")
    return tmp_path / "toy.json"


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    write_problem(GRAPH, tmp_path / "graph.json.gz")
    return tmp_path / "graph.json.gz"


def same_requests(one: AllocationTrace, other: AllocationTrace) -> bool:
    columns = ("size", "address", "mark_phase", "mark_iteration")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in columns)


def test_a_trace_goes_through_every_format_of_traces(npz: Path, tmp_path: Path) -> None:
    assert convert(Conversion(npz, tmp_path / "a.txt")).endswith("a.txt: stalloc, 5 requests")
    assert same_requests(read_stalloc_trace(tmp_path / "a.txt"), TRACE)
    convert(Conversion(tmp_path / "a.txt", tmp_path / "b.npz"))
    assert same_requests(read_recorded_trace_file(tmp_path / "b.npz"), TRACE)


@pytest.mark.parametrize(
    ("selection", "sizes"),
    [
        (Selection(), [700, 30, 40]),
        (Selection("last"), [700, 30, 40]),
        (Selection("0"), [700, 10, 20]),
        (Selection("1", persistent=False), [30, 40]),
        (Selection("last", round_to=512), [1024, 512, 512]),
        (Selection("all"), [700, 10, 20, 30, 40]),
    ],
)
def test_a_part_of_a_trace_becomes_a_problem(
    npz: Path, tmp_path: Path, selection: Selection, sizes: list[int]
) -> None:
    convert(Conversion(npz, tmp_path / "part.json", selection=selection))
    assert read_problem(tmp_path / "part.json").size.tolist() == sizes


def test_without_marks_everything_is_taken(tmp_path: Path) -> None:
    write_recorded_trace(AllocationTrace(2, [8], [0], [1], [1], address=[64]), tmp_path / "run.npz")
    convert(Conversion(tmp_path / "run.npz", tmp_path / "all.csv"))
    assert read_problem(tmp_path / "all.csv").size.tolist() == [8]


def test_problems_round_trip_between_json_and_csv(toy: Path, tmp_path: Path) -> None:
    convert(Conversion(toy, tmp_path / "a.csv"))
    convert(Conversion(tmp_path / "a.csv", tmp_path / "b.json.gz"))
    assert problem_digest(read_problem(tmp_path / "b.json.gz")) == problem_digest(PROBLEM)


def test_a_planner_fills_the_offsets(toy: Path, tmp_path: Path) -> None:
    said = convert(Conversion(toy, tmp_path / "a.csv", planner="greedy-size-best"))
    assert said.endswith("minimalloc-csv, 3 tensors, planned in 8 bytes")
    _, plan = read_minimalloc_plan(tmp_path / "a.csv")
    assert plan is not None
    assert plan.peak == 8


def test_a_plan_file_is_shown(toy: Path, tmp_path: Path) -> None:
    result = run(PROBLEM, get("naive"))
    write_plan(PROBLEM, result, tmp_path / "best.json")
    for name in ("a.pickle", "a.perfetto.json"):
        convert(Conversion(toy, tmp_path / name, plan=tmp_path / "best.json"))
    trace = read_pytorch_snapshot_trace(tmp_path / "a.pickle")
    assert sorted(trace.size.tolist()) == [2, 4, 4]
    events = json.loads((tmp_path / "a.perfetto.json").read_text())["traceEvents"]
    assert {event["name"] for event in events if event["ph"] == "X"} == {"a", "b", "c"}


def test_a_plan_as_json_is_a_plan_file_with_sizes(toy: Path, tmp_path: Path) -> None:
    said = convert(Conversion(toy, tmp_path / "plan.json", planner="auto", align=4))
    assert said.endswith("plan.json: plan, 3 tensors, planned in 8 bytes")
    fields = json.loads((tmp_path / "plan.json").read_text())
    assert fields["size"] == [4, 4, 2]
    assert fields["alignment"] == [4, 4, 4]
    assert fields["tensor_name"] == ["a", "b", "c"]
    # It belongs to the problem as it was aligned.
    convert(Conversion(toy, tmp_path / "a.h", plan=tmp_path / "plan.json", align=4))
    with pytest.raises(InstanceError, match="the plan is for another problem"):
        convert(Conversion(toy, tmp_path / "b.h", plan=tmp_path / "plan.json"))


def test_sizes_of_a_plan_file_are_those_of_its_problem(toy: Path, tmp_path: Path) -> None:
    convert(Conversion(toy, tmp_path / "plan.json", planner="auto"))
    fields = json.loads((tmp_path / "plan.json").read_text())
    fields["size"][0] = 5
    (tmp_path / "plan.json").write_text(json.dumps(fields))
    with pytest.raises(InstanceError, match="field size: the value of the instance is needed"):
        convert(Conversion(toy, tmp_path / "a.h", plan=tmp_path / "plan.json"))


def test_a_graph_is_shown_in_its_global_order(graph: Path, tmp_path: Path) -> None:
    convert(Conversion(graph, tmp_path / "a.pickle", planner="naive"))
    assert read_pytorch_snapshot_trace(tmp_path / "a.pickle").request_count == 2


def test_offsets_of_a_csv_are_its_plan(toy: Path, tmp_path: Path) -> None:
    convert(Conversion(toy, tmp_path / "a.csv", planner="naive"))
    said = convert(Conversion(tmp_path / "a.csv", tmp_path / "a.pickle"))
    assert said.endswith("planned in 10 bytes")
    (tmp_path / "bad.csv").write_text("id,lower,upper,size,offset\na,0,2,4,0\nb,0,2,4,2\n")
    with pytest.raises(InvalidPlanError):
        convert(Conversion(tmp_path / "bad.csv", tmp_path / "bad.pickle"))


def test_a_device_of_a_snapshot_is_chosen(tmp_path: Path) -> None:
    event = {"action": "alloc", "addr": 64, "size": 8, "stream": 0}
    content = {"segments": [], "device_traces": [[event], [{**event, "size": 9}]]}
    (tmp_path / "run.pickle").write_bytes(pickle.dumps(content))
    convert(Conversion(tmp_path / "run.pickle", tmp_path / "a.csv", device=1))
    assert read_problem(tmp_path / "a.csv").size.tolist() == [9]
    with pytest.raises(InstanceError, match="found 0, 1"):
        convert(Conversion(tmp_path / "run.pickle", tmp_path / "a.csv"))


@pytest.mark.parametrize(
    ("source", "output", "fields", "message"),
    [
        (
            "graph.json.gz",
            "a.csv",
            {},
            "graph.json.gz to .*/a.csv: .* found a graph with 2 streams",
        ),
        ("graph.json.gz", "a.csv", {"planner": "naive"}, "a graph with 2 streams"),
        ("toy.json", "a.npz", {}, r"toy\.json to .*a\.npz: npz holds a trace of requests, "),
        ("toy.json", "a.txt", {}, "stalloc holds a trace of requests, found a problem"),
        ("toy.json", "a.pickle", {}, "snapshot shows a plan: give --plan or --planner"),
        ("toy.json", "a.json", {"target": "perfetto"}, "toy.json to .*: perfetto shows a plan"),
        (
            "toy.json",
            "a.json",
            {"planner": "naive", "target": "gapless-json"},
            "gapless-json holds no plan",
        ),
        ("toy.json", "a.csv", {"align": 3}, "--align: a power of two is needed, found 3"),
        ("run.npz", "a.txt", {"align": 8}, "stalloc holds whole traces: leave out --align"),
        ("toy.json", "a.json", {"target": "plan"}, "plan shows a plan: give --plan or --planner"),
        ("toy.json", "a.h", {}, "c-header shows a plan: give --plan or --planner"),
        ("toy.json", "a.csv", {"dimensions": {"x": 1}}, r"--dimension: a file with open dimen"),
        ("run.npz", "a.txt", {"planner": "naive"}, "stalloc holds no plan"),
        ("run.npz", "a.txt", {"selection": Selection("0")}, "stalloc holds whole traces"),
        ("run.npz", "a", {"target": "npz"}, "a name that ends in .npz"),
        ("run.npz", "a.json", {"selection": Selection("7")}, "iteration 7: the trace has"),
        ("run.npz", "a.json", {"selection": Selection("-9")}, "iteration -9: the trace has"),
        ("run.npz", "a.json", {"selection": Selection("first")}, "a whole number .* 'first'"),
        (
            "run.npz",
            "a.json",
            {"selection": Selection(round_to=0)},
            "1 to 1099511627776 bytes",
        ),
        ("run.npz", "a.json", {"device": 0}, "--device is for memory snapshots, found recorded-"),
        ("toy.json", "a.csv", {"selection": Selection("0")}, "select from a trace, found a prob"),
        ("toy.json", "a.xyz", {}, r"the suffix names no format; give --to, one of gapless-json \("),
        ("toy.json", "a.csv", {"target": "perfeto"}, "--to: no such format, .* mean 'perfetto'"),
        ("toy.json", "a.csv", {"planner": "greedy-*"}, "one planner is needed, found 8"),
        ("toy.json", "a.csv", {"planner": "naive", "plan": Path("x")}, "found both"),
        ("none.json", "a.csv", {}, "the file cannot be read"),
        ("toy.json", "none/a.json", {"target": "gapless-json"}, "none does not exist"),
        ("run.npz", "none/a.npz", {}, "none does not exist"),
    ],
)
@pytest.mark.usefixtures("npz", "toy", "graph")
def test_each_impossible_conversion_is_one_error(
    tmp_path: Path, source: str, output: str, fields: dict[str, Any], message: str
) -> None:
    before = sorted(tmp_path.iterdir())
    with pytest.raises(GaplessError, match=message):
        convert(Conversion(tmp_path / source, tmp_path / output, **fields))
    assert sorted(tmp_path.iterdir()) == before


def test_an_unknown_planner_is_named(toy: Path, tmp_path: Path) -> None:
    with pytest.raises(UnknownPlannerError):
        convert(Conversion(toy, tmp_path / "a.csv", planner="greedy-colour"))


def test_a_plan_for_another_problem_is_refused(toy: Path, tmp_path: Path) -> None:
    write_plan(GRAPH, run(GRAPH, get("naive")), tmp_path / "best.json")
    with pytest.raises(InstanceError, match="the plan is for another problem"):
        convert(Conversion(toy, tmp_path / "a.csv", plan=tmp_path / "best.json"))


def test_the_longest_suffix_decides() -> None:
    assert find_target(Path("a.perfetto.json"), None).name == "perfetto"
    assert find_target(Path("a.JSON.GZ"), None).name == "gapless-json"
    assert find_target(Path("a.json"), "snapshot").name == "snapshot"
    assert len({target.name for target in TARGETS}) == len(TARGETS)


def test_the_command_line(npz: Path, tmp_path: Path) -> None:
    done = run_command(
        app, npz, "-o", tmp_path / "a.csv", "--iteration", 0, "--no-persistent", "--round-to", 8,
        "--planner", "naive",
    )  # fmt: skip
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == f"{tmp_path / 'a.csv'}: minimalloc-csv, 2 tensors, planned in 40 bytes\n"
    problem, plan = read_minimalloc_plan(tmp_path / "a.csv")
    assert problem.size.tolist() == [16, 24]
    assert plan is not None
    assert plan.peak >= place(problem).peak


def test_the_command_line_says_what_is_wrong_in_one_line(toy: Path, tmp_path: Path) -> None:
    done = run_command(app, toy, "-o", tmp_path / "a.npz")
    require_one_line(done, f"error: {toy} to {tmp_path / 'a.npz'}: npz holds a trace of")
