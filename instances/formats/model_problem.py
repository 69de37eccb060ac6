"""The problem that a compiler's model poses: its nodes in order, with weights apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from instances.extract.tracing.storages import Kernel, find_control_arcs, graph_of_kernels
from planners import Problem


@dataclass(frozen=True)
class ModelTensor:
    """A storage that has to be placed."""

    name: str
    # Bytes, and the alignment of its offset.
    size: int
    alignment: int


def model_problem(
    path: Path,
    format_name: str,
    kernels: Sequence[Kernel],
    tensors: Sequence[ModelTensor],
    persistent_bytes: int,
    dimensions: Mapping[str, int] | None = None,
) -> Problem:
    """Return the problem of a file; the tensors are those that the kernels plan, in their order."""
    return Problem(
        [tensor.size for tensor in tensors],
        graph=graph_of_kernels(kernels, control=find_control_arcs(kernels)),
        alignment=[tensor.alignment for tensor in tensors],
        tensor_name=[tensor.name for tensor in tensors],
        name=path.stem,
        origin={
            "format": format_name,
            "file": path.name,
            **{f"dimension {name}": size for name, size in (dimensions or {}).items()},
            "persistent_bytes": persistent_bytes,
        },
    )
