"""Which calls of operators are kernels, and what their schemas say about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

# A batch norm changes its running statistics, and its results in training do not depend on them.
STATISTICS = frozenset({"running_mean", "running_var"})


@dataclass(frozen=True)
class Operator:
    """Facts that the schema of an operator states."""

    # Without namespace and overload, "mul".
    name: str
    # True if a call makes or changes tensors. Views and questions of the host do not.
    is_kernel: bool
    # Place and name of each argument that a call changes in place, and of those that hold running
    # statistics of a batch norm.
    written: tuple[tuple[int, str], ...]
    statistics: tuple[tuple[int, str], ...]
    is_random: bool
    # True if PyTorch says that two runs with the same inputs give the same bits.
    is_repeatable: bool

    def written_tensors(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[Tensor]:
        """Yield the tensors that a call changes in place."""
        for place, name in self.written:
            value = args[place] if place < len(args) else kwargs.get(name)
            yield from tensors_of(value)


@cache
def operator_of(call: Any) -> Operator:
    """Return the facts in the schema of an overload."""
    schema = call._schema
    name = schema.name.split("::")[-1]
    numbered = list(enumerate(schema.arguments))
    statistics = tuple((place, each.name) for place, each in numbered if each.name in STATISTICS)
    written = tuple(
        (place, each.name)
        for place, each in numbered
        if each.alias_info is not None and each.alias_info.is_write and each.name not in STATISTICS
    )
    makes = any("Tensor" in str(each.type) and each.alias_info is None for each in schema.returns)
    tags = {tag.name for tag in call.tags}
    return Operator(
        name, makes or bool(written), written, statistics,
        "nondeterministic_seeded" in tags, "nondeterministic_bitwise" not in tags,
    )  # fmt: skip


def tensors_of(values: Any) -> list[Tensor]:
    """Return the tensors in nested values that have a storage, in their order."""
    return [
        leaf
        for leaf in pytree.tree_leaves(values)
        if isinstance(leaf, Tensor) and leaf.layout is torch.strided
    ]


def storage_key(tensor: Tensor) -> int:
    """Return a number of the tensor's storage, unique among the storages that are alive."""
    key: int = tensor.untyped_storage()._cdata
    return key


def new_tensors(result: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Tensor]:
    """Return a tensor for each storage that a call has made, in the order of its results."""
    given = {storage_key(tensor) for tensor in tensors_of((args, kwargs))}
    made: dict[int, Tensor] = {}
    for tensor in tensors_of(result):
        key = storage_key(tensor)
        if key not in given and tensor.untyped_storage().nbytes() > 0:
            made.setdefault(key, tensor)
    return list(made.values())
