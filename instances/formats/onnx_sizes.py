"""What a tensor of an ONNX model takes, and the sizes that its open dimensions are given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planners.errors import InstanceError
from planners.files.dimensions import Dimensions, require_dimensions
from planners.files.file_limits import element_count
from planners.text.plain_text import shown

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, TensorProto, TypeProto, ValueInfoProto

# Elements of less than a byte are packed.
_BITS = {"UINT4": 4, "INT4": 4, "FLOAT4E2M1": 4, "UINT2": 2, "INT2": 2}


@dataclass(frozen=True)
class Bytes:
    """What a tensor takes: bytes, and the alignment that its elements need."""

    size: int
    alignment: int


@dataclass(frozen=True)
class TensorType:
    """What is known of a tensor: its kind of elements, or 0, and its shape with open lengths."""

    element: int = 0
    lengths: tuple[int | None, ...] | None = None

    @property
    def is_settled(self) -> bool:
        """Whether the whole shape is known."""
        return self.lengths is not None and None not in self.lengths

    @property
    def shape(self) -> list[int]:
        """The lengths of a settled shape."""
        return [length or 0 for length in self.lengths or ()]

    @property
    def elements(self) -> int:
        """How many elements a tensor of a settled shape has."""
        return element_count(self.shape, "tensor")


def type_of(name: str, kind: TypeProto) -> TensorType:
    """Return the type of a tensor without the names and notes that a file may give its axes."""
    found = kind.WhichOneof("value")
    if found not in (None, "tensor_type"):
        raise InstanceError(f"tensor {shown(name)}: a dense tensor is needed, found {found}")
    tensor = kind.tensor_type
    if not tensor.HasField("shape"):
        return TensorType(tensor.elem_type)
    lengths = [each.dim_value if _is_settled(each) else None for each in tensor.shape.dim]
    element_count([1 if length is None else length for length in lengths], f"tensor {shown(name)}")
    return TensorType(tensor.elem_type, tuple(lengths))


def weights_of(graph: GraphProto) -> dict[str, TensorProto]:
    """Return the initializers by name; a graph's input of the same name is one, too."""
    weights = {weight.name: weight for weight in graph.initializer}
    if len(weights) < len(graph.initializer):
        raise InstanceError("initializers of different names are needed, found one given twice")
    return weights


def set_dimensions(model: ModelProto, dimensions: Dimensions) -> None:
    """Give the open dimensions of a model's inputs their sizes, all of them.

    One without a name is called by its input and axis, ``x.0``. What other tensors have open is
    left to shape inference.
    """
    graph = model.graph
    weights = weights_of(graph)
    inputs = [value for value in graph.input if value.name not in weights]
    where: dict[str, str] = {}
    for value in inputs:
        for axis, dimension in enumerate(_shape_of(value)):
            if not _is_settled(dimension):
                where.setdefault(_name_of(value, axis), f"{value.name}[{axis}]")
    require_dimensions(where, dimensions)
    for value in inputs:
        for axis, dimension in enumerate(_shape_of(value)):
            if not _is_settled(dimension):
                dimension.dim_value = dimensions[_name_of(value, axis)]
    for value in (*graph.value_info, *graph.output):
        for dimension in value.type.tensor_type.shape.dim:
            if dimension.dim_param in dimensions:
                dimension.dim_value = dimensions[dimension.dim_param]
            elif not _is_settled(dimension):
                dimension.Clear()


def weight_bytes(weight: TensorProto) -> int:
    """Return the bytes of an initializer, wherever its numbers are kept."""
    count = element_count(weight.dims, f"initializer {shown(weight.name)}")
    return _take(weight.data_type, weight.name, count).size


def tensor_bytes(name: str, kind: TensorType) -> Bytes:
    """Return what a tensor of a settled type takes."""
    if not kind.is_settled:
        raise InstanceError(
            f"tensor {shown(name)}: a shape is needed, and shape inference finds none; it may "
            f"depend on data"
        )
    return _take(kind.element, name, kind.elements)


def _shape_of(value: ValueInfoProto) -> Iterator[Any]:
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        raise InstanceError(f"input {shown(value.name)}: a tensor is needed, found {kind}")
    if not value.type.tensor_type.HasField("shape"):
        raise InstanceError(f"input {shown(value.name)}: a tensor with a shape is needed")
    yield from value.type.tensor_type.shape.dim


def _is_settled(dimension: Any) -> bool:
    # Some exporters write -1 for what is open.
    return bool(dimension.HasField("dim_value") and dimension.dim_value >= 0)


def _name_of(value: ValueInfoProto, axis: int) -> str:
    name: str = value.type.tensor_type.shape.dim[axis].dim_param
    return name or f"{value.name}.{axis}"


def _take(element: int, name: str, count: int) -> Bytes:
    from onnx import TensorProto, helper

    kinds: Mapping[int, str] = {number: kind for kind, number in TensorProto.DataType.items()}
    kind = kinds.get(element, "UNDEFINED")
    if kind in ("UNDEFINED", "STRING"):
        raise InstanceError(
            f"tensor {shown(name)}: elements of a fixed size are needed, found {kind}"
        )
    if kind in _BITS:
        return Bytes(-(-count * _BITS[kind] // 8), 1)
    width = helper.tensor_dtype_to_np_dtype(element).itemsize
    return Bytes(count * width, width)
