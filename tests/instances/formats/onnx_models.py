"""ONNX models, by hand and at random."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

Shape = Sequence[int | str | None]
# Operator, inputs and outputs, by commas, and attributes.
Node = tuple[str, str, str] | tuple[str, str, str, Mapping[str, Any]]


def save(path: Path, model: Any) -> Path:
    path.write_bytes(model.SerializeToString())
    return path


def node_of(op: str, inputs: str, outputs: str, attributes: Mapping[str, Any] | None = None) -> Any:
    from onnx import helper

    return helper.make_node(
        op, inputs.split(",") if inputs else [], outputs.split(","), **(attributes or {})
    )


def model_of(
    nodes: Sequence[Node],
    inputs: Mapping[str, Shape],
    outputs: str,
    weights: Mapping[str, Any] | None = None,
    element: str = "FLOAT",
    **more: Any,
) -> Any:
    """Return a model whose outputs have no shape, so that inference has to find it."""
    from onnx import TensorProto, helper, numpy_helper

    kind = getattr(TensorProto, element)
    graph = helper.make_graph(
        [node_of(*node) for node in nodes],
        "graph",
        [helper.make_tensor_value_info(name, kind, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, kind, None) for name in outputs.split(",")],
        [
            numpy_helper.from_array(np.asarray(value), name)
            for name, value in (weights or {}).items()
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], **more)


def random_model(rng: Random, nodes: int) -> Any:
    """Return a model of operators that share bytes and of some that do not."""
    from onnx import numpy_helper

    ones = np.ones((2, 6), np.float32)
    weights = {"w": ones, "rows": np.array([2, 6]), "axis": np.array([0])}
    made, listed = ["x", "y", "w"], list[Node]()
    for new in (f"t{index}" for index in range(nodes)):
        read, other = rng.choices(made, k=2)
        steps: list[list[Node]] = [
            [("Relu", read, new)],
            [("Add", f"{read},{other}", new)],
            [("Identity", read, new)],
            [("Flatten", read, f"{new}.flat"), ("Reshape", f"{new}.flat,rows", new)],
            [("Unsqueeze", f"{read},axis", f"{new}.wide"), ("Squeeze", f"{new}.wide,axis", new)],
            [
                ("Split", read, f"{new}.0,{new}.1", {"axis": 1, "num_outputs": 2}),
                ("Concat", f"{new}.1,{new}.0", new, {"axis": 1}),
            ],
            [("Constant", "", new, {"value": numpy_helper.from_array(ones)})],
        ]
        listed += rng.choice(steps)
        made.append(new)
    outputs = rng.sample(made[3:], 2)
    return model_of(listed, {"x": [2, 6], "y": [2, 6]}, ",".join(outputs), weights)
