"""ONNX models as problems: sizes, lifetimes, what shares bytes, what is open or refused."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planners import Problem, read_problem
from planners.compare.__main__ import app
from planners.errors import GaplessError, InstanceError
from tests.command_line import run_command
from tests.instances.formats.onnx_models import Node, model_of, node_of, random_model, save
from tests.instances.formats.rows import rows_of
from tests.repository import ROOT

pytestmark = pytest.mark.onnx

RENAMES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity")


def read(folder: Path, model: Any, **dimensions: int) -> Problem:
    return read_problem(save(folder / "net.onnx", model), dimensions=dimensions)


def test_a_model_by_hand(tmp_path: Path) -> None:
    nodes: list[Node] = [
        ("Conv", "x,w", "a", {"pads": [1, 1, 1, 1]}),
        ("Relu", "a", "b"),
        ("Flatten", "b", "c"),
        ("Add", "c,c", "d"),
    ]
    weights = {"w": np.zeros((4, 3, 3, 3), np.float32)}
    problem = read(tmp_path, model_of(nodes, {"x": [1, 3, 8, 8]}, "d", weights))
    # Node 0 makes the inputs, node 5 reads the output; b lives as long as its other name, c.
    assert rows_of(problem) == {
        "x": (768, 0, 2), "a": (1024, 1, 3), "b": (1024, 2, 5), "d": (1024, 4, 6),
    }  # fmt: skip
    assert problem.graph is not None
    assert problem.graph.op == ("input", "Conv", "Relu", "Flatten", "Add", "output")
    assert problem.alignment.tolist() == [4] * 4
    assert problem.origin["persistent_bytes"] == 4 * 27 * 4


def lived_through(model: Any) -> dict[str, tuple[int, int, int]]:
    """Return the rows of a model as its nodes are gone through by hand, and run."""
    from onnx import TensorProto, helper
    from onnx.reference import ReferenceEvaluator

    graph = model.graph
    storage_of = {name: name for name in ("x", "y")}
    born, dead = {"x": 0, "y": 0}, {"x": 0, "y": 0}
    for step, node in enumerate(graph.node, start=1):
        for name in node.input:
            if name in storage_of:
                dead[storage_of[name]] = step
        for name in node.output:
            if node.op_type in RENAMES:
                if node.input[0] in storage_of:
                    storage_of[name] = storage_of[node.input[0]]
            elif node.op_type != "Constant":
                storage_of[name] = name
                born[name] = dead[name] = step
    for value in graph.output:
        if value.name in storage_of:
            dead[storage_of[value.name]] = len(graph.node) + 1
    del graph.output[:]
    graph.output.extend(
        helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in born
    )
    given = {name: np.ones((2, 6), np.float32) for name in ("x", "y")}
    values = ReferenceEvaluator(model).run(None, given)
    return {
        name: (int(np.asarray(value).nbytes), born[name], dead[name] + 1)
        for name, value in zip(born, values, strict=True)
    }


@given(st.randoms(use_true_random=False), st.integers(2, 14))
def test_random_models_against_going_through_them(rng: Random, nodes: int) -> None:
    model = random_model(rng, nodes)
    with tempfile.TemporaryDirectory() as folder:
        problem = read(Path(folder), model)
    assert rows_of(problem) == lived_through(model)


def test_another_name_of_a_weight_is_a_weight(tmp_path: Path) -> None:
    nodes: list[Node] = [("Identity", "w", "v"), ("Add", "x,v", "a")]
    weights = {"w": np.zeros(6, np.float32)}
    assert set(rows_of(read(tmp_path, model_of(nodes, {"x": [6]}, "a", weights)))) == {"x", "a"}


def test_a_shape_is_needed_until_it_is_read(tmp_path: Path) -> None:
    nodes: list[Node] = [("Shape", "y", "s"), ("Relu", "x", "a"), ("Reshape", "a,s", "b")]
    problem = read(tmp_path, model_of(nodes, {"x": [6], "y": [2, 3]}, "b"))
    assert rows_of(problem)["s"] == (16, 1, 4)


def test_elements_below_a_byte_are_packed(tmp_path: Path) -> None:
    problem = read(tmp_path, model_of([("Transpose", "x", "a")], {"x": [7]}, "a", element="INT4"))
    assert (problem.size.tolist(), problem.alignment.tolist()) == ([4, 4], [1, 1])


def test_a_result_without_shape_that_nobody_reads_is_left_out(tmp_path: Path) -> None:
    nodes: list[Node] = [("Foreign", "x", "a,m"), ("Foreign", "x", "b,n"), ("Relu", "x", "y")]
    model = model_of(nodes, {"x": [6]}, "y")
    with pytest.warns(UserWarning, match=r"net.onnx: each result of \[.*\] is left out") as said:
        assert set(rows_of(read(tmp_path, model))) == {"x", "y"}
    assert len(said) == 1


def test_small_weights_of_the_oldest_models_are_known(tmp_path: Path) -> None:
    from onnx import helper

    nodes: list[Node] = [("Conv", "x,w", "a"), ("Reshape", "a,shape", "b"), ("Gemm", "b,v", "y")]
    weights = {
        "w": np.zeros((4, 3, 3, 3), np.float32), "shape": np.array([1, 16]),
        "v": np.zeros((16, 5), np.float32),
    }  # fmt: skip
    model = model_of(nodes, {"x": [1, 3, 4, 4]}, "y", weights, ir_version=3)
    # Below version 4 each initializer is an input as well.
    model.graph.input.extend(
        helper.make_tensor_value_info(each.name, each.data_type, each.dims)
        for each in model.graph.initializer
    )
    assert [row[0] for row in rows_of(read(tmp_path, model)).values()] == [192, 64, 20]


def test_shapes_that_the_model_computes_are_found(tmp_path: Path) -> None:
    nodes: list[Node] = [
        ("Shape", "x", "shape"),
        ("Gather", "shape,last", "length"),
        ("Div", "length,two", "half"),
        ("Reshape", "half,one", "half1"),
        ("Concat", "zero,two1,half1", "wanted", {"axis": 0}),
        ("Reshape", "x,wanted", "y"),
        ("Transpose", "y", "z"),
    ]
    weights = {
        "last": np.array(-1), "two": np.array(2), "one": np.array([1]),
        "zero": np.array([0]), "two1": np.array([2]),
    }  # fmt: skip
    model = model_of(nodes, {"x": ["batch", "length"]}, "z", weights)
    rows = rows_of(read(tmp_path, model, batch=3, length=10))
    assert rows["z"][0] == 3 * 10 * 4
    assert "y" not in rows


def test_a_function_of_the_model_is_inlined(tmp_path: Path) -> None:
    from onnx import helper

    opset = [helper.make_opsetid("", 21)]
    twice = helper.make_function("my", "Twice", ["u"], ["v"], [node_of("Add", "u,u", "v")], opset)
    model = model_of([("Relu", "x", "a")], {"x": [4]}, "b", functions=[twice])
    model.graph.node.append(helper.make_node("Twice", ["a"], ["b"], domain="my"))
    model.opset_import.append(helper.make_opsetid("my", 1))
    problem = read(tmp_path, model)
    assert problem.graph is not None
    assert problem.graph.op == ("input", "Relu", "Add", "output")


def test_weights_in_another_file_are_not_opened(tmp_path: Path) -> None:
    from onnx import external_data_helper

    weights = {"w": np.zeros((1000, 1000), np.float32)}
    model = model_of([("MatMul", "x,w", "a")], {"x": [5, 1000]}, "a", weights)
    external_data_helper.set_external_data(model.graph.initializer[0], "nowhere.bin")
    model.graph.initializer[0].ClearField("raw_data")
    problem = read(tmp_path, model)
    assert problem.size.tolist() == [20_000, 20_000]
    assert problem.origin["persistent_bytes"] == 4_000_000


def open_model() -> Any:
    nodes: list[Node] = [("Add", "x,y", "a"), ("Relu", "a", "b")]
    return model_of(nodes, {"x": ["batch", None, 3], "y": ["batch", -1, 3]}, "b")


def test_open_dimensions_are_given(tmp_path: Path) -> None:
    problem = read(tmp_path, open_model(), **{"batch": 8, "x.1": 5, "y.1": 5})
    assert problem.size.tolist() == [8 * 5 * 3 * 4] * 4
    assert problem.origin["dimension batch"] == 8


@pytest.mark.parametrize(
    ("dimensions", "message"),
    [
        ({}, r"open are batch \(x\[0\]\), x.1 \(x\[1\]\), y.1 \(y\[1\]\); give --dimension b"),
        ({"batch": 8, "x.1": 5}, r"open are y.1 \(y\[1\]\); give --dimension y.1=N"),
        ({"bach": 8}, "no dimension is called 'bach'; did you mean 'batch'"),
    ],
)
def test_open_dimensions_are_listed(tmp_path: Path, dimensions: Any, message: str) -> None:
    with pytest.raises(InstanceError, match=message):
        read(tmp_path, open_model(), **dimensions)


def test_a_model_without_open_dimensions_takes_none(tmp_path: Path) -> None:
    model = model_of([("Relu", "x", "a")], {"x": [4]}, "a")
    with pytest.raises(InstanceError, match="no dimension is called 'batch'; none is open"):
        read(tmp_path, model, batch=8)


def test_a_file_of_another_format_takes_no_dimension() -> None:
    with pytest.raises(InstanceError, match=r"open dimensions is needed \(onnx.*\), found gapless"):
        read_problem(ROOT / "instances" / "bert.json", dimensions={"batch": 8})


def with_a_branch() -> Any:
    from onnx import TensorProto, helper

    output = helper.make_tensor_value_info("b", TensorProto.FLOAT, [4])
    branch = helper.make_graph([node_of("Relu", "x", "b")], "branch", [], [output])
    both = {"then_branch": branch, "else_branch": branch}
    weights = {"c": np.array(True)}
    return model_of([("If", "c", "a", both)], {"x": [4]}, "a", weights)


def with_strings() -> Any:
    return model_of([("Identity", "x", "a")], {"x": [4]}, "a", element="STRING")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (with_a_branch, r"node 0 \(If ''\): nodes without a graph .* found '(then|else)_branch'"),
        (with_strings, "tensor 'x': elements of a fixed size are needed, found STRING"),
        (
            lambda: model_of([("Relu", "a", "b"), ("Relu", "x", "a")], {"x": [4]}, "b"),
            r"node 0 \(Relu ''\): nothing before it makes 'a'",
        ),
        (
            lambda: model_of([("Relu", "x", "a"), ("Relu", "x", "a")], {"x": [4]}, "a"),
            r"node 1 \(Relu ''\): 'a' is made a second time",
        ),
        (lambda: model_of([("Relu", "x", "a")], {"x": [4]}, "b"), "nothing before it makes 'b'"),
        (
            lambda: model_of([("NonZero", "x", "a"), ("Shape", "a", "b")], {"x": [4]}, "b"),
            "tensor 'a': a shape is needed, and shape inference finds none",
        ),
        (
            lambda: model_of([("Reshape", "x,s", "a")], {"x": [4]}, "a", {"s": np.array([5])}),
            "tensor 'a': the 16 bytes of 'x' are needed, found a shape of 20",
        ),
        (
            lambda: model_of([("SequenceConstruct", "x", "a")], {"x": [4]}, "a"),
            "tensor 'a': a dense tensor is needed, found sequence_type",
        ),
        (
            lambda: model_of([("Relu", "x", "a")], {"x": [1 << 40, 1 << 40]}, "a"),
            r"tensor 'x': fewer than 2\*\*63 elements are needed, found the shape",
        ),
    ],
)
def test_a_wrong_model_is_refused(tmp_path: Path, make: Any, message: str) -> None:
    with pytest.raises(InstanceError, match=message) as caught:
        read(tmp_path, make())
    assert str(caught.value).startswith(str(tmp_path / "net.onnx"))


@pytest.mark.parametrize("content", [b"", b"\xff\xff\xff", b"no model at all"])
def test_a_file_without_a_model_is_one_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "net.onnx").write_bytes(content)
    with pytest.raises(GaplessError, match=r"no ONNX model|with outputs is needed"):
        read_problem(tmp_path / "net.onnx")


def test_the_command_line_compares_models(tmp_path: Path) -> None:
    path = save(tmp_path / "net.onnx", open_model())
    done = run_command(
        app, path, "--dimension", "batch=8", "--dimension", "x.1=5", "--dimension", "y.1=5"
    )
    assert (done.exit_code, done.stderr) == (0, "")
    assert "net: 4 tensors, 1 stream" in done.stdout
    done = run_command(app, path)
    assert done.exit_code == 2
    assert "--dimension batch=N --dimension x.1=N --dimension y.1=N" in done.stderr
    done = run_command(app, path, "--dimension", "batch")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "--dimension: NAME=N with N from 1 to" in done.stderr


@pytest.mark.torch
@pytest.mark.parametrize("dynamo", [True, False])
def test_models_that_pytorch_exports(tmp_path: Path, dynamo: bool) -> None:
    import onnx
    import torch
    from onnx.reference import ReferenceEvaluator

    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    path = tmp_path / "encoder.onnx"
    # The older exporter writes the length into the model wherever it is given.
    open_axes: dict[str, Any] = (
        {"dynamic_shapes": ({0: "batch", 1: "length"},)}
        if dynamo
        else {"dynamic_axes": {"x": {0: "batch"}}}
    )
    sizes = {"batch": 3, "length": 5} if dynamo else {"batch": 3}
    torch.onnx.export(
        encoder, (torch.randn(2, 7, 16),), path, dynamo=dynamo, input_names=["x"], **open_axes
    )
    problem = read_problem(path, dimensions=sizes)
    model = onnx.load(path)
    names = list(problem.tensor_name or ())
    del model.graph.output[:]
    model.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in names)
    values = ReferenceEvaluator(model).run(
        None, {"x": np.ones((3, 5 if dynamo else 7, 16), np.float32)}
    )
    assert [np.asarray(value).nbytes for value in values] == problem.size.tolist()
