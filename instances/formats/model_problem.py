"""The one way from the operators of a compiler's model to a problem; weights stay apart."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from instances.extract.kernels.storages import (
    Kernel,
    StepPhase,
    find_control_arcs,
    graph_of_kernels,
    planned_storages,
)
from planners import Problem
from planners.errors import InstanceError
from planners.text.plain_text import shown


@dataclass(frozen=True)
class ModelTensor:
    """A storage that has to be placed."""

    name: str
    # Bytes, and the alignment of its offset.
    size: int
    alignment: int


class Operators:
    """The operators of a model in their order, and the storage behind each name that they use."""

    def __init__(self, kept: Iterable[Hashable] = ()) -> None:
        self.kernels: list[Kernel] = []
        # The first name of each storage.
        self.names: list[Any] = []
        # Storages with memory of their own: weights.
        self._kept: set[int] = set()
        self._storage: dict[Hashable, int] = {}
        self.keep(kept, "weights")

    def __contains__(self, name: Hashable) -> bool:
        return name in self._storage

    def keep(self, names: Iterable[Hashable], where: str) -> None:
        """Begin storages with memory of their own."""
        for name in names:
            self._kept.add(self._begin(name, where))

    def add(
        self,
        op: str,
        where: str,
        reads: Iterable[Hashable] = (),
        makes: Iterable[Hashable] = (),
        writes: Iterable[Hashable] = (),
    ) -> None:
        """Append an operator; it creates what it makes, and changes in place what it writes."""
        read, written = self._find(reads, where), self._find(writes, where)
        created = tuple(self._begin(name, where) for name in makes)
        read = tuple(storage for storage in read if storage not in written)
        self.kernels.append(Kernel(op, StepPhase.FORWARD, read, written, created))

    def use(self, names: Iterable[Hashable], where: str) -> None:
        """Keep storages to the end of the operator that was added last."""
        last = self.kernels[-1]
        touched = set(last.touches)
        more = (storage for storage in self._find(names, where) if storage not in touched)
        self.kernels[-1] = replace(last, reads=(*last.reads, *more))

    def make_first(self, name: Hashable) -> None:
        """Let a storage live from the first operator on."""
        first = self.kernels[0]
        self.kernels[0] = replace(first, creates=(*first.creates, self._begin(name, "input")))

    def rename(self, name: Hashable, given: Hashable, where: str) -> Any:
        """Give the storage of a name another name, and return its first name."""
        (storage,) = self._find([given], where)
        self._name(name, storage, where)
        return self.names[storage]

    @property
    def kept(self) -> list[Any]:
        """The names of the storages with memory of their own."""
        return [self.names[storage] for storage in sorted(self._kept)]

    @property
    def planned(self) -> list[Any]:
        """The names of the storages to be placed, in the order of the problem's tensors."""
        return [self.names[storage] for storage in planned_storages(self.kernels)]

    def _begin(self, name: Hashable, where: str) -> int:
        self._name(name, len(self.names), where)
        self.names.append(name)
        return len(self.names) - 1

    def _name(self, name: Hashable, storage: int, where: str) -> None:
        if name in self._storage:
            raise InstanceError(f"{where}: {shown(name)} is made a second time")
        self._storage[name] = storage

    def _find(self, names: Iterable[Hashable], where: str) -> tuple[int, ...]:
        wanted = list(names)
        for name in wanted:
            if name not in self._storage:
                raise InstanceError(f"{where}: nothing before it makes {shown(name)}")
        return tuple(dict.fromkeys(self._storage[name] for name in wanted))


def model_problem(
    path: Path,
    format_name: str,
    operators: Operators,
    tensor_of: Callable[[Any], ModelTensor],
    persistent_bytes: int,
    dimensions: Mapping[str, int] | None = None,
) -> Problem:
    """Return the problem of a file; a function gives each storage to be placed by its name."""
    kernels = operators.kernels
    tensors = [tensor_of(name) for name in operators.planned]
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


def warn_of_left_out(path: Path | str, what: str, why: str) -> None:
    """Say in one line which part of a file the problem does not have."""
    warnings.warn(f"{path}: {what} is left out: {why}", stacklevel=3)
