"""Models of a few hundred bytes to a megabyte that would take hours or gigabytes to unfold."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.instances.formats.onnx_models import model_of, node_of
from tests.instances.formats.tflite_models import tflite_model

# What makes a file, and what it is answered with; None where it is read.
Bomb = tuple[Callable[[], bytes], str | None]
MANY = 3 * 10**8


def bytes_of(model: Any) -> bytes:
    data: bytes = model.SerializeToString()
    return data


def declared(op: str, weights: dict[str, Any], element: str = "FLOAT") -> bytes:
    """A result of many elements that the file declares to be one."""
    from onnx import TensorProto, helper

    inputs = ",".join(weights)
    model = model_of([(op, inputs, "a"), ("Identity", "a", "b")], {"x": [1]}, "b", weights)
    kind = getattr(TensorProto, element)
    model.graph.value_info.append(helper.make_tensor_value_info("a", kind, [1]))
    return bytes_of(model)


def doubling_functions(depth: int, width: int = 2, domain: str = "my") -> bytes:
    """Functions that each call the next one twice; negative: the last one calls the first."""
    from onnx import helper

    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(domain, 1)]
    functions = []
    for level in range(depth):
        following = level + 1 if level + 1 < depth else 0 if width < 0 else None
        call = "Relu" if following is None else f"f{following}"
        its = "" if following is None else domain
        nodes = [
            helper.make_node(call, ["u"], [f"v{index}"], domain=its) for index in range(abs(width))
        ]
        functions.append(helper.make_function(domain, f"f{level}", ["u"], ["v0"], nodes, opsets))
    model = model_of([], {"x": [4]}, "a", functions=functions)
    model.graph.node.append(helper.make_node("f0", ["x"], ["a"], domain=domain))
    model.opset_import.append(helper.make_opsetid(domain, 1))
    return bytes_of(model)


def functions_in_branches() -> bytes:
    """Thirty functions that call each other twice, from a branch that would be refused later."""
    from onnx import TensorProto, helper, load_model_from_string

    model = load_model_from_string(doubling_functions(30))
    call = helper.make_node("f0", ["x"], ["b"], domain="my")
    output = helper.make_tensor_value_info("b", TensorProto.FLOAT, [4])
    branch = helper.make_graph([call], "branch", [], [output])
    del model.graph.node[:]
    model.graph.node.append(node_of("If", "x", "a", {"then_branch": branch, "else_branch": branch}))
    return bytes_of(model)


def many_dimensions() -> bytes:
    return bytes_of(model_of([("Relu", "x", "a")], {"x": [(1 << 62) - 1] * 100_000}, "a"))


def many_dimensions_of_a_weight() -> bytes:
    model = model_of([("Add", "x,w", "a")], {"x": [1]}, "a", {"w": np.zeros(1, np.float32)})
    model.graph.initializer[0].dims[:] = [(1 << 62) - 1] * 100_000
    return bytes_of(model)


def many_opsets() -> bytes:
    from onnx import helper

    nodes = [("Relu", "x" if index == 0 else f"{index - 1}", str(index)) for index in range(3000)]
    model = model_of(nodes, {"x": [4]}, "2999")  # type: ignore[arg-type]
    model.opset_import.extend(helper.make_opsetid(f"d{index}", 1) for index in range(80_000))
    return bytes_of(model)


def noted_axis() -> bytes:
    """An axis with a note of half a megabyte, handed from result to result."""
    nodes = [("Relu", "x" if index == 0 else f"{index - 1}", str(index)) for index in range(5000)]
    model = model_of(nodes, {"x": [4]}, "4999")  # type: ignore[arg-type]
    model.graph.input[0].type.tensor_type.shape.dim[0].denotation = "a" * 500_000
    return bytes_of(model)


def growing_ranks() -> bytes:
    axes = {"axes": np.arange(60)}
    nodes = [("Unsqueeze", f"{index},axes", str(index + 1)) for index in range(3000)]
    return bytes_of(model_of(nodes, {"0": [4]}, "3000", axes))  # type: ignore[arg-type]


def one_split() -> bytes:
    return bytes_of(model_of([("Split", "x", "a", {"num_outputs": 10**9})], {"x": [4]}, "a"))


def many_nodes() -> bytes:
    nodes = [("Neg", "x", np.base_repr(index, 36)) for index in range(64_000)]
    return bytes_of(model_of(nodes, {"x": [4]}, "0"))  # type: ignore[arg-type]


def read_again() -> bytes:
    """A node that reads the same thousand numbers 300,000 times."""
    node = ("Max", ",".join(["n"] * 300_000), "a")
    return bytes_of(model_of([node], {"x": [4]}, "a", {"n": np.zeros(1024, np.int64)}))


def short_ranges() -> bytes:
    """Sixteen thousand nodes, each of which computes thirty thousand numbers."""
    nodes = [("Range", "s,l,d", np.base_repr(index, 36)) for index in range(16_000)]
    numbers = dict(zip("sld", np.array([0, 30_000, 1], np.int16), strict=True))
    return bytes_of(model_of(nodes, {"x": [4]}, "0", numbers))  # type: ignore[arg-type]


ONNX: dict[str, Bomb] = {
    "maxima": (read_again, "known numbers, each as often as it is read"),
    "ranges": (short_ranges, "known numbers, each as often as it is read"),
    "range": (
        lambda: declared("Range", dict(zip("sld", np.array([0, MANY, 1]), strict=True)), "INT64"),
        "tensor 'a': the shape in the file",
    ),
    "short-range": (
        lambda: declared(
            "Range", {"s": np.int16(0), "l": np.int16(30_000), "d": np.int16(1)}, "INT16"
        ),
        "tensor 'a': ",
    ),
    "far-range": (
        lambda: declared(
            "Range", {"s": np.array(-(1 << 62)), "l": np.array(1 << 62), "d": np.array(1)}, "INT64"
        ),
        "tensor 'a': ",
    ),
    "expand": (
        lambda: declared("Expand", {"w": np.zeros(1, np.float32), "s": np.array([MANY])}),
        "tensor 'a': the shape in the file",
    ),
    "expand-more": (
        lambda: declared("Expand", {"w": np.zeros(1, np.float32), "s": np.array([1 << 40] * 60)}),
        "tensor 'a': ",
    ),
    "filled": (
        lambda: declared("ConstantOfShape", {"s": np.array([MANY])}),
        "tensor 'a': the shape in the file",
    ),
    "doubling": (lambda: doubling_functions(30), "function 'f1"),
    "doubling-domain": (lambda: doubling_functions(30, domain="ai.onnx"), "function 'f1"),
    "cycle": (lambda: doubling_functions(3, -2), "no function that calls itself"),
    "calls": (lambda: doubling_functions(20_000, 1), "calls at most 64 deep"),
    "branches": (functions_in_branches, "nodes without a graph of their own"),
    "dimensions": (many_dimensions, "at most 64 dimensions are taken, found 100000"),
    "weight": (many_dimensions_of_a_weight, "at most 64 dimensions are taken, found 100000"),
    "opsets": (many_opsets, None),
    "note": (noted_axis, None),
    "ranks": (growing_ranks, "at most 64 dimensions are taken, found 121"),
    "split": (one_split, "num_outputs 1, as many as the node has results, is needed"),
    "nodes": (many_nodes, "nodes, found 64000"),
}  # fmt: skip


def shared(kind: str) -> bytes:
    """A model of 20,000 tensors or operators that share one vector or one name."""
    import flatbuffers
    import tflite

    count, builder = 20_000, flatbuffers.Builder(1 << 20)
    is_name, is_shape = kind == "name", kind == "shape"
    name = builder.CreateString("a" * 200_000 if is_name else "a")
    shape = builder.CreateNumpyVector(np.ones(100_000 if is_shape else 1, np.int32))
    read = builder.CreateNumpyVector(np.zeros(100_000 if kind == "inputs" else 1, np.int32))
    tables = []
    for _ in range(count):
        tflite.TensorStart(builder)
        tflite.TensorAddName(builder, name)
        tflite.TensorAddShape(builder, shape)
        tables.append(tflite.TensorEnd(builder))
    operators = []
    for index in range(count - 1):
        made = builder.CreateNumpyVector(np.array([index + 1], np.int32))
        tflite.OperatorStart(builder)
        tflite.OperatorAddInputs(builder, read)
        tflite.OperatorAddOutputs(builder, made)
        operators.append(tflite.OperatorEnd(builder))

    def listed(start: Any, entries: list[int]) -> int:
        start(builder, len(entries))
        for entry in reversed(entries):
            builder.PrependUOffsetTRelative(entry)
        vector: int = builder.EndVector()
        return vector

    def vector_of(number: int) -> int:
        vector: int = builder.CreateNumpyVector(np.array([number], np.int32))
        return vector

    if kind == "one":
        tables = tables[:1] * 200_000
    parts = {
        "Tensors": listed(tflite.SubGraphStartTensorsVector, tables),
        "Operators": listed(tflite.SubGraphStartOperatorsVector, operators),
        "Inputs": vector_of(0),
        "Outputs": vector_of(count - 1),
    }
    tflite.SubGraphStart(builder)
    for part, vector in parts.items():
        getattr(tflite, f"SubGraphAdd{part}")(builder, vector)
    graph = tflite.SubGraphEnd(builder)
    tflite.OperatorCodeStart(builder)
    code = tflite.OperatorCodeEnd(builder)
    tflite.BufferStart(builder)
    buffer = tflite.BufferEnd(builder)
    root = {
        "OperatorCodes": listed(tflite.ModelStartOperatorCodesVector, [code]),
        "Subgraphs": listed(tflite.ModelStartSubgraphsVector, [graph]),
        "Buffers": listed(tflite.ModelStartBuffersVector, [buffer]),
    }
    tflite.ModelStart(builder)
    for part, vector in root.items():
        getattr(tflite, f"ModelAdd{part}")(builder, vector)
    builder.Finish(tflite.ModelEnd(builder), file_identifier=b"TFL3")
    return bytes(builder.Output())


def long_shape() -> bytes:
    return tflite_model({"x": [(1 << 31) - 1] * 100_000}, [("RELU", ["x"], ["x"])], ["x"], ["x"])


TFLITE: dict[str, Bomb] = {
    "name": (lambda: shared("name"), "numbers and letters, each as often as it is read"),
    "inputs": (lambda: shared("inputs"), "numbers and letters, each as often as it is read"),
    "shape": (lambda: shared("shape"), "tensor 0"),
    "one": (lambda: shared("one"), "tensors, operators and entries, found"),
    "long-shape": (long_shape, "is made a second time"),
}


def tensor_of(name: str) -> Any:
    return {"name": "self", "arg": {"as_tensor": {"name": name}}, "kind": 1}


def node(target: str, *arguments: Any, outputs: Any = None) -> Any:
    inputs = [
        each if "name" in each else {"name": "", "arg": each, "kind": 1} for each in arguments
    ]
    outputs = [{"as_sym_int": {"as_name": "n"}}] if outputs is None else outputs
    return {"target": target, "inputs": inputs, "outputs": outputs, "metadata": {}}


def program(*nodes: Any, sizes: Any = None, method: int = zipfile.ZIP_STORED) -> bytes:
    """A program of one input of 2^40 elements, and these nodes."""
    sizes = [{"as_int": 1 << 40}] if sizes is None else sizes
    meta = {"dtype": 7, "sizes": sizes, "strides": [{"as_int": 1}] * len(sizes)}
    argument = {"as_tensor": {"name": "x"}}
    graph = {
        "inputs": [argument], "outputs": [argument], "nodes": list(nodes),
        "tensor_values": {"x": meta}, "sym_int_values": {},
    }  # fmt: skip
    signature = {"input_specs": [{"user_input": {"arg": argument}}], "output_specs": []}
    text = json.dumps(
        {"graph_module": {"graph": graph, "signature": signature}, "range_constraints": {}}
    )
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr("net/models/model.json", text)
    return file.getvalue()


def number(value: int) -> Any:
    return {"as_int": value}


def squares() -> bytes:
    named = {"as_sym_int": {"as_name": "n"}}
    return program(
        node("_operator.add", number(1 << 40), number(0)),
        *[node("_operator.mul", named, named) for _ in range(60)],
    )


def views() -> bytes:
    """Six thousand views, each of the one before."""
    return program(
        *[
            node(
                "torch.ops.aten.t.default",
                tensor_of(f"a{index}" if index else "x"),
                outputs=[{"as_tensor": {"name": f"a{index + 1}"}}],
            )
            for index in range(6000)
        ],
        sizes=[number(8), number(8)],
    )


def foreign_name() -> bytes:
    """A member whose name is said to be UTF-8, and is not."""
    data = bytearray(program())
    entry = data.index(b"PK\x01\x02")
    data[entry + 8 : entry + 10] = struct.pack("<H", 1 << 11)
    data[entry + 46] = 0xFF
    return bytes(data)


def long_list(kind: str) -> bytes:
    """A product of 20,000 matrices, or a tensor split into 200,000 parts."""
    target, entries = {
        "product": ("linalg_multi_dot", [{"as_tensors": [{"name": "x"}] * 20_000}]),
        "parts": ("split_with_sizes", [tensor_of("x"), {"as_ints": [8] + [0] * 200_000}]),
    }[kind]
    made = [{"as_tensor": {"name": "a"}}] if kind == "product" else MADE
    sizes = [number(8), number(8)]
    return program(node(f"torch.ops.aten.{target}.default", *entries, outputs=made), sizes=sizes)


def formula(text: str) -> Any:
    return {"as_expr": {"expr_str": text, "hint": None}}


MADE = [{"as_tensors": [{"name": "a"}]}]
TORCH: dict[str, Bomb] = {
    "views": (views, None),
    "layout": (
        lambda: program(
            node("torch.ops.aten.to.other", tensor_of("x"), tensor_of("x"), {"as_bool": False},
                 {"as_bool": False}, number(2**63 - 1), outputs=[{"as_tensor": {"name": "a"}}])
        ),
        "argument memory_format: a memory_format is needed, found 92233",
    ),
    "name": (foreign_name, "the file is not a whole archive"),
    "product": (lambda: long_list("product"), "lists of at most 4096 entries are needed"),
    "parts": (lambda: long_list("parts"), "lists of at most 4096 entries are needed"),
    "format": (
        lambda: program(node("_operator.mod", {"as_string": "%5000000000d"}, number(1))),
        "node 0 ('_operator.mod'): a size: a whole number",
    ),
    "squares": (squares, "node 1 ('_operator.mul')"),
    "rangelist": (
        lambda: program(node("torch.ops.prim.rangelist.default", number(10**9))),
        "node 0 ('torch.ops.prim.rangelist.default')",
    ),
    "repeated": (
        lambda: program(node("torch.ops.aten.mul.left_t", {"as_ints": [1]}, number(10**9))),
        "node 0 ('torch.ops.aten.mul.left_t')",
    ),
    "split": (
        lambda: program(
            node("torch.ops.aten.split.Tensor", tensor_of("x"), number(1), outputs=MADE)
        ),
        "as many results as are named, 1, are needed",
    ),
    "differences": (
        lambda: program(
            node("torch.ops.aten.diff.default", tensor_of("x"), number(10**9),
                 outputs=[{"as_tensor": {"name": "a"}}])
        ),
        "results as are named, 1, are needed",
    ),
    "dimensions": (lambda: program(sizes=[number(3)] * 100_000), "at most 64 dimensions"),
    "factors": (
        lambda: program(sizes=[formula(f"Mul({', '.join(['Integer(9)'] * 100_000)})")]),
        "a formula of at most",
    ),
    "power": (
        lambda: program(sizes=[formula(f"Mul({', '.join(['Integer(9)'] * 1000)})")]),
        "a whole number from -2**63",
    ),
    "infinite": (
        lambda: program(sizes=[{"as_int": float("inf")}]),
        "a whole number from -2**63",
    ),
}  # fmt: skip
BOMBS = {"onnx": (".onnx", ONNX), "tflite": (".tflite", TFLITE), "torch": (".pt2", TORCH)}


def small_bombs(package: str) -> dict[str, bytes]:
    """Return those of a few kilobytes, by the names of their files."""
    ending, bombs = BOMBS[package]
    made = {f"{name}{ending}": make() for name, (make, _) in bombs.items()}
    return {name: data for name, data in made.items() if len(data) < 8192}
