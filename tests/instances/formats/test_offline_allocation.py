"""TensorFlow Lite models: read, planned, and written with a plan that their runtime takes."""

from __future__ import annotations

import struct
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from instances.convert.conversion import Conversion, convert
from instances.formats.tflite_model import TfliteModel, read_tflite_model, write_offline_allocation
from planners import Plan, Problem, place, read_problem, run, write_problem
from planners.errors import InstanceError, InvalidPlanError, MissingDependencyError
from planners.model.plan import feasible
from tests.instances.formats.rows import rows_of
from tests.instances.formats.tflite_models import tflite_model

LENGTH = 10
BACKWARDS = [("RELU", ["a"], ["b"]), ("RELU", ["x"], ["a"])]
TWICE = [("RELU", ["x"], ["a"]), ("RELU", ["x"], ["a"])]


def test_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "net.tflite").write_bytes(b"\0\0\0\0TFL3")
    monkeypatch.setitem(sys.modules, "tflite", None)
    with pytest.raises(MissingDependencyError, match=r"net.tflite: .* 'gapless\[tflite\]'"):
        read_problem(tmp_path / "net.tflite")


def chain(**changes: Any) -> bytes:
    """Return x -> a, a + w -> b, b -> c, with a weight, a variable, and a tensor nobody makes."""
    shapes = dict.fromkeys("xwabcvu", (1, LENGTH))
    operators = [("RELU", ["x"], ["a"]), ("ADD", ["a", "w"], ["b"]), ("RELU", ["b"], ["c"])]
    given: dict[str, Any] = {
        "operators": operators, "weights": ["w"], "variables": ["v"], "metadata": {"min": b"1.5"},
    }  # fmt: skip
    return tflite_model(shapes, inputs=["x"], outputs=["c"], **{**given, **changes})


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def planned(source: Path, planner: str = "auto") -> TfliteModel:
    target = source.with_name("planned.tflite")
    convert(Conversion(source, target, planner=planner))
    return read_tflite_model(target)


@pytest.mark.tflite
def test_a_model_is_read_as_the_runtime_has_it(tmp_path: Path) -> None:
    model = read_tflite_model(written(tmp_path / "net.tflite", chain()))
    problem = model.problem
    assert problem.tensor_name == ("x", "a", "b", "c")
    assert problem.size.tolist() == [4 * LENGTH] * 4
    assert problem.alignment.tolist() == [16] * 4
    assert problem.start.tolist() == [0, 1, 2, 3]
    assert problem.end.tolist() == [2, 3, 4, 5]
    assert problem.graph is not None
    assert problem.graph.op == ("input", "RELU", "ADD", "RELU", "output")
    assert model.offsets is None


@pytest.mark.tflite
def test_operators_on_one_variable_keep_their_order(tmp_path: Path) -> None:
    shapes = dict.fromkeys("xvabc", (1, LENGTH))
    operators = [("SVDF", ["x", "v"], ["a"]), ("RELU", ["x"], ["b"]), ("SVDF", ["x", "v"], ["c"])]
    data = tflite_model(shapes, operators, ["x"], ["a", "b", "c"], variables=["v"])
    graph = read_tflite_model(written(tmp_path / "net.tflite", data)).problem.graph
    assert graph is not None
    assert graph.control.tolist() == [[1, 3]]


def lives(path: Path, data: bytes) -> dict[str, tuple[int, int, int]]:
    return rows_of(read_tflite_model(written(path / "net.tflite", data)).problem)


SHAPES = dict.fromkeys("xyz", (1, LENGTH))
BRANCH = (dict.fromkeys("pqr", (1, LENGTH)), [("RELU", "p", "q"), ("RELU", "q", "r")], "p", "r")
OTHER = (dict.fromkeys("stu", (1, LENGTH)), [("RELU", "s", "t")], "s", "t")


@pytest.mark.tflite
@pytest.mark.parametrize("kind", ["IF", "WHILE"])
def test_subgraphs_run_behind_the_operator_that_calls_them(tmp_path: Path, kind: str) -> None:
    # 0 makes x, 1 is the call; 2, 3, 4 run the first subgraph, 5, 6 the second; 7 makes z.
    operators = [(kind, "x", "y", 1, 2), ("RELU", "y", "z")]
    rows = lives(tmp_path, tflite_model(SHAPES, operators, "x", "z", called=[BRANCH, OTHER]))
    assert {name: row[1:] for name, row in rows.items()} == {
        "x": (0, 7), "y": (1, 8), "p": (2, 4), "q": (3, 5), "r": (4, 5), "s": (5, 7), "t": (6, 7),
        "z": (7, 9),
    }  # fmt: skip


@pytest.mark.tflite
def test_a_subgraph_that_runs_again_keeps_its_tensors(tmp_path: Path) -> None:
    operators = [("CALL", "x", "y", 1), ("CALL", "y", "z", 1)]
    rows = lives(tmp_path, tflite_model(SHAPES, operators, "x", "z", called=[OTHER]))
    # 0 makes x; 1, 2, 3 are one call with its subgraph, 4, 5, 6 the other.
    assert {name: row[1:] for name, row in rows.items()} == {
        "x": (0, 4), "y": (1, 7), "s": (2, 7), "t": (3, 7), "z": (4, 8),
    }  # fmt: skip


@pytest.mark.tflite
def test_a_handle_has_no_bytes(tmp_path: Path) -> None:
    operators = [("VAR_HANDLE", "", "h"), ("ASSIGN_VARIABLE", "hx", ""), ("RELU", "x", "z")]
    shapes = {**SHAPES, "h": ()}
    rows = lives(tmp_path, tflite_model(shapes, operators, "x", "z", handles="h"))
    assert rows == {"x": (4 * LENGTH, 0, 4), "h": (0, 1, 3), "z": (4 * LENGTH, 3, 5)}


@pytest.mark.tflite
def test_a_tensor_that_nobody_makes_is_scratch_memory_from_the_start(tmp_path: Path) -> None:
    shapes = dict.fromkeys("xsz", (1, LENGTH))
    operators = [("RELU", "x", "z"), ("ADD", "zs", ""), ("RELU", "z", "")]
    words = struct.pack("<6i", 1, 0, 3, 0, 0, 64)
    plans = {name: tflite_model(shapes, operators, "x", "z", metadata={name: words})
             for name in ("OfflineMemoryAllocation", "other")}  # fmt: skip
    assert lives(tmp_path, plans["other"])["s"] == (4 * LENGTH, 0, 3)
    # x and s share bytes on purpose.
    path = written(tmp_path / "net.tflite", plans["OfflineMemoryAllocation"])
    model = read_tflite_model(path)
    with pytest.warns(UserWarning, match="net: the plan of the file is left out: .* scratch"):
        plan = model.plan
    with pytest.warns(UserWarning, match="left out"):
        again = planned(path)
    assert (plan, again.plan is None) == (None, False)


@pytest.mark.tflite
def test_a_plan_is_written_and_read_back(tmp_path: Path) -> None:
    import tflite

    source = written(tmp_path / "net.tflite", chain())
    model = planned(source)
    assert model.offsets is not None
    assert [offset == -1 for offset in model.offsets] == [name in "wvu" for name in "xwabcvu"]
    assert model.plan is not None
    assert model.plan.peak == 2 * 48 - 8
    data = (tmp_path / "planned.tflite").read_bytes()
    assert data.endswith(source.read_bytes())
    root = tflite.Model.GetRootAs(data)
    names = [root.Metadata(index).Name() for index in range(root.MetadataLength())]
    assert names == [b"min", b"OfflineMemoryAllocation"]
    assert bytes(root.Buffers(root.Metadata(0).Buffer()).DataAsNumpy()) == b"1.5"
    content = root.Buffers(root.Metadata(1).Buffer()).DataAsNumpy()
    assert content.ctypes.data % 4 == np.frombuffer(data, np.uint8).ctypes.data % 4
    assert content.view(np.int32)[:3].tolist() == [1, 0, 7]
    assert (root.Version(), root.Description()) == (3, b"by hand")
    # What is planned again has one plan, and the plan of a file is what a conversion takes.
    again = tmp_path / "again.tflite"
    convert(Conversion(tmp_path / "planned.tflite", again, planner="naive"))
    read_again = read_tflite_model(again)
    assert read_again.plan is not None
    assert read_again.plan.peak == 3 * 48 + 40
    said = convert(Conversion(again, tmp_path / "plan.h"))
    assert said.endswith("c-header, 4 tensors, planned in 184 bytes")


Sums = list[tuple[str, list[str], list[str]]]


def random_sums(rng: Random, operators: int) -> tuple[bytes, Sums, list[str]]:
    """Return a model of sums, the sums, and what it returns."""
    made, listed = ["x", "w"], Sums()
    for index in range(operators):
        listed.append(("ADD", rng.choices(made, k=2), [f"t{index}"]))
        made.append(f"t{index}")
    outputs = sorted({made[-1], rng.choice(made[2:])})
    shapes = dict.fromkeys(made, (1, LENGTH))
    return tflite_model(shapes, listed, ["x"], outputs, weights=["w"]), listed, outputs


def run_in_arena(model: TfliteModel, operators: Sums) -> dict[str, NDArray[np.float32]]:
    """Run sums in one arena at the offsets of the metadata, as the Micro runtime does."""
    assert model.offsets is not None
    names = list(dict.fromkeys(["x", "w", *(name for _, _, made in operators for name in made)]))
    arena = np.zeros(max(model.offsets) + 4 * LENGTH, np.uint8)
    values = {
        name: arena[offset : offset + 4 * LENGTH].view(np.float32)
        for name, offset in zip(names, model.offsets, strict=True)
        if offset >= 0
    }
    values["w"] = np.ones(LENGTH, np.float32)
    values["x"][:] = np.arange(LENGTH)
    for _, (one, other), (result,) in operators:
        values[result][:] = values[one] + values[other]
    return values


@pytest.mark.tflite
@given(st.randoms(use_true_random=False), st.integers(1, 12), st.sampled_from(["auto", "naive"]))
def test_the_arena_of_a_plan_gives_what_arenas_without_one_do(
    rng: Random, count: int, planner: str
) -> None:
    data, operators, outputs = random_sums(rng, count)
    expected = {"x": np.arange(LENGTH, dtype=np.float32), "w": np.ones(LENGTH, np.float32)}
    for _, (one, other), (result,) in operators:
        expected[result] = expected[one] + expected[other]
    with tempfile.TemporaryDirectory() as folder:
        model = planned(written(Path(folder, "net.tflite"), data), planner)
    values = run_in_arena(model, operators)
    for name in outputs:
        np.testing.assert_array_equal(values[name], expected[name])


@pytest.mark.tflite
def test_tensorflow_lite_runs_what_was_written(tmp_path: Path) -> None:
    from ai_edge_litert.interpreter import Interpreter

    source = written(tmp_path / "net.tflite", chain())
    planned(source)
    for path in (source, tmp_path / "planned.tflite"):
        runtime = Interpreter(str(path))
        runtime.allocate_tensors()
        given = np.arange(LENGTH, dtype=np.float32)[None] - 3
        runtime.set_tensor(runtime.get_input_details()[0]["index"], given)
        runtime.invoke()
        result = runtime.get_tensor(runtime.get_output_details()[0]["index"])
        np.testing.assert_array_equal(result, np.maximum(given, 0) + 1)


@pytest.mark.tflite
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"element": "STRING"}, "tensor 1: elements of a fixed size are needed, found type 5"),
        ({"operators": BACKWARDS}, r"operator 0 \(RELU\): nothing before it makes tensor 2"),
        ({"operators": TWICE}, r"operator 1 \(RELU\): tensor 2 is made a second time"),
        ({"operators": [("CALL_ONCE", [], [], 0)]}, "no subgraph that calls itself"),
        ({"operators": [("IF", ["x"], ["c"], 1, 0)]}, "truncated or damaged TFLite.*subgraph 1"),
        ({"metadata": {"OfflineMemoryAllocation": b"\1\0\0\0" * 3}}, "as many offsets are needed"),
    ],
)
def test_a_wrong_model_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = written(tmp_path / "net.tflite", chain(**changes))
    with pytest.raises(InstanceError, match=message) as caught:
        read_problem(path)
    assert str(caught.value).startswith(str(path))


@pytest.mark.tflite
def test_a_plan_needs_its_model(tmp_path: Path) -> None:
    source = written(tmp_path / "net.tflite", chain())
    other = Problem([4], [0], [1])
    write_problem(other, tmp_path / "other.json")
    several = written(
        tmp_path / "several.tflite",
        tflite_model(SHAPES, [("CALL", "x", "y", 1)], "x", "y", called=[OTHER]),
    )
    with pytest.raises(InstanceError, match="one subgraph is needed to hold a plan, found 2"):
        planned(several)
    with pytest.raises(InstanceError, match=r"other.json: the file is no TensorFlow Lite model"):
        convert(Conversion(tmp_path / "other.json", tmp_path / "new.tflite", planner="auto"))
    with pytest.raises(InstanceError, match="a plan for this very model is needed"):
        write_offline_allocation(source, other, run(other, "auto"), tmp_path / "new.tflite")
    problem = read_problem(source)
    wrong = feasible(Plan.of(problem, [0] * problem.tensor_count))
    with pytest.raises(InvalidPlanError):
        write_offline_allocation(source, problem, wrong, tmp_path / "new.tflite")
    assert place(problem).peak > 0
    assert not (tmp_path / "new.tflite").exists()
