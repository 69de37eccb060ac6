"""TensorFlow Lite models, made by the package's own builders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

# Name and shape of each tensor.
Tensors = Mapping[str, Sequence[int]]
# Operator, inputs and outputs, and the subgraphs that it calls.
Operators = Sequence[tuple[Any, ...]]
# The options of operators that call subgraphs.
CALLS = {
    "CALL": ("CallOptions", ["Subgraph"]),
    "CALL_ONCE": ("CallOnceOptions", ["InitSubgraphIndex"]),
    "IF": ("IfOptions", ["ThenSubgraphIndex", "ElseSubgraphIndex"]),
    "WHILE": ("WhileOptions", ["CondSubgraphIndex", "BodySubgraphIndex"]),
}


def tflite_model(
    tensors: Tensors,
    operators: Operators,
    inputs: Sequence[str],
    outputs: Sequence[str],
    *,
    weights: Sequence[str] = (),
    variables: Sequence[str] = (),
    metadata: Mapping[str, bytes] | None = None,
    element: str = "FLOAT32",
    handles: Sequence[str] = (),
    called: Sequence[tuple[Tensors, Operators, Sequence[str], Sequence[str]]] = (),
) -> bytes:
    """Return the bytes of a model, with subgraphs that its operators call; weights are ones."""
    import flatbuffers
    import tflite

    builder = flatbuffers.Builder(1024)
    graphs = [(tensors, operators, inputs, outputs), *called]
    kinds = list(dict.fromkeys(each[0] for _, listed, _, _ in graphs for each in listed))
    metadata = metadata or {}

    def numbers(names: Sequence[str], among: Tensors) -> int:
        number = {name: index for index, name in enumerate(among)}
        vector: int = builder.CreateNumpyVector(
            np.array([number.get(name, -1) for name in names], np.int32)
        )
        return vector

    def listed(start: Any, tables: Sequence[int]) -> int:
        start(builder, len(tables))
        for table in reversed(tables):
            builder.PrependUOffsetTRelative(table)
        vector: int = builder.EndVector()
        return vector

    def buffer(data: bytes) -> int:
        vector = builder.CreateNumpyVector(np.frombuffer(data, np.uint8)) if data else None
        tflite.BufferStart(builder)
        if vector is not None:
            tflite.BufferAddData(builder, vector)
        table: int = tflite.BufferEnd(builder)
        return table

    def tensor(name: str, shape: Sequence[int]) -> int:
        text = builder.CreateString(name)
        vector = builder.CreateNumpyVector(np.array(shape, np.int32))
        tflite.TensorStart(builder)
        tflite.TensorAddName(builder, text)
        tflite.TensorAddShape(builder, vector)
        kind = "RESOURCE" if name in handles else element
        tflite.TensorAddType(builder, getattr(tflite.TensorType, kind))
        tflite.TensorAddBuffer(builder, 1 + weights.index(name) if name in weights else 0)
        tflite.TensorAddIsVariable(builder, name in variables)
        table: int = tflite.TensorEnd(builder)
        return table

    def operator(among: Tensors, kind: str, read: Any, made: Any, *calls: int) -> int:
        read_vector, made_vector = numbers(read, among), numbers(made, among)
        options, fields = CALLS.get(kind, ("", []))
        table = 0
        if calls:
            getattr(tflite, f"{options}Start")(builder)
            for field, call in zip(fields, calls, strict=True):
                getattr(tflite, f"{options}Add{field}")(builder, call)
            table = getattr(tflite, f"{options}End")(builder)
        tflite.OperatorStart(builder)
        tflite.OperatorAddOpcodeIndex(builder, kinds.index(kind))
        tflite.OperatorAddInputs(builder, read_vector)
        tflite.OperatorAddOutputs(builder, made_vector)
        if calls:
            kinds_of_options = tflite.BuiltinOptions
            tflite.OperatorAddBuiltinOptionsType(builder, getattr(kinds_of_options, options))
            tflite.OperatorAddBuiltinOptions(builder, table)
        made_table: int = tflite.OperatorEnd(builder)
        return made_table

    def code(kind: str) -> int:
        value = getattr(tflite.BuiltinOperator, kind)
        tflite.OperatorCodeStart(builder)
        tflite.OperatorCodeAddDeprecatedBuiltinCode(builder, min(value, 127))
        tflite.OperatorCodeAddBuiltinCode(builder, value)
        tflite.OperatorCodeAddVersion(builder, 1)
        table: int = tflite.OperatorCodeEnd(builder)
        return table

    def graph(tensors: Tensors, operators: Operators, inputs: Any, outputs: Any) -> int:
        made = [tensor(*each) for each in tensors.items()]
        parts = {
            "Tensors": listed(tflite.SubGraphStartTensorsVector, made),
            "Inputs": numbers(inputs, tensors),
            "Outputs": numbers(outputs, tensors),
            "Operators": listed(
                tflite.SubGraphStartOperatorsVector,
                [operator(tensors, *each) for each in operators],
            ),
        }
        tflite.SubGraphStart(builder)
        for part, vector in parts.items():
            getattr(tflite, f"SubGraphAdd{part}")(builder, vector)
        table: int = tflite.SubGraphEnd(builder)
        return table

    def entry(name: str, buffer_index: int) -> int:
        text = builder.CreateString(name)
        tflite.MetadataStart(builder)
        tflite.MetadataAddName(builder, text)
        tflite.MetadataAddBuffer(builder, buffer_index)
        table: int = tflite.MetadataEnd(builder)
        return table

    ones = [np.ones(tensors[name], np.float32).tobytes() for name in weights]
    buffers = [buffer(data) for data in (b"", *ones, *metadata.values())]
    parts = {
        "OperatorCodes": listed(tflite.ModelStartOperatorCodesVector, [*map(code, kinds)]),
        "Subgraphs": listed(tflite.ModelStartSubgraphsVector, [graph(*each) for each in graphs]),
        "Description": builder.CreateString("by hand"),
        "Buffers": listed(tflite.ModelStartBuffersVector, buffers),
        "Metadata": listed(
            tflite.ModelStartMetadataVector,
            [entry(name, 1 + len(ones) + index) for index, name in enumerate(metadata)],
        ),
    }
    tflite.ModelStart(builder)
    tflite.ModelAddVersion(builder, 3)
    for part, vector in parts.items():
        getattr(tflite, f"ModelAdd{part}")(builder, vector)
    builder.Finish(tflite.ModelEnd(builder), file_identifier=b"TFL3")
    return bytes(builder.Output())
