"""TensorFlow Lite models, made by the package's own builders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

# Name and shape of each tensor.
Tensors = Mapping[str, Sequence[int]]
# Operator, inputs and outputs.
Operators = Sequence[tuple[str, Sequence[str], Sequence[str]]]


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
    subgraphs: int = 1,
) -> bytes:
    """Return the bytes of a model; weights are ones."""
    import flatbuffers
    import tflite

    builder = flatbuffers.Builder(1024)
    number = {name: index for index, name in enumerate(tensors)}
    kinds = list(dict.fromkeys(kind for kind, _, _ in operators))
    metadata = metadata or {}

    def numbers(names: Sequence[str]) -> int:
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
        tflite.TensorAddType(builder, getattr(tflite.TensorType, element))
        tflite.TensorAddBuffer(builder, 1 + weights.index(name) if name in weights else 0)
        tflite.TensorAddIsVariable(builder, name in variables)
        table: int = tflite.TensorEnd(builder)
        return table

    def operator(kind: str, read: Sequence[str], made: Sequence[str]) -> int:
        read_vector, made_vector = numbers(read), numbers(made)
        tflite.OperatorStart(builder)
        tflite.OperatorAddOpcodeIndex(builder, kinds.index(kind))
        tflite.OperatorAddInputs(builder, read_vector)
        tflite.OperatorAddOutputs(builder, made_vector)
        table: int = tflite.OperatorEnd(builder)
        return table

    def code(kind: str) -> int:
        value = getattr(tflite.BuiltinOperator, kind)
        tflite.OperatorCodeStart(builder)
        tflite.OperatorCodeAddDeprecatedBuiltinCode(builder, min(value, 127))
        tflite.OperatorCodeAddBuiltinCode(builder, value)
        tflite.OperatorCodeAddVersion(builder, 1)
        table: int = tflite.OperatorCodeEnd(builder)
        return table

    def graph() -> int:
        made = [tensor(*each) for each in tensors.items()]
        parts = {
            "Tensors": listed(tflite.SubGraphStartTensorsVector, made),
            "Inputs": numbers(inputs),
            "Outputs": numbers(outputs),
            "Operators": listed(
                tflite.SubGraphStartOperatorsVector, [operator(*each) for each in operators]
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
        "Subgraphs": listed(tflite.ModelStartSubgraphsVector, [graph() for _ in range(subgraphs)]),
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
