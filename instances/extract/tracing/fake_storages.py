"""The storages of fake tensors, numbered: a view has that of its base."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils import _pytree as pytree

# Identifies a storage as long as something keeps it alive, which here the graph does.
storage_key: Callable[[torch.UntypedStorage], Any] = StorageWeakRef


class Storages:
    """Numbers storages in the order in which they are first seen."""

    def __init__(self) -> None:
        self.number: dict[Any, int] = {}
        self.size: list[int] = []
        self.name: list[str] = []

    def of(self, values: Any, name: str = "") -> tuple[int, ...]:
        """Return the storage of every tensor in nested values.

        New ones are called by the name, and numbered where there are several.
        """
        tensors = list(_tensors(values))
        suffixes = [""] if len(tensors) == 1 else [f".{index}" for index in range(len(tensors))]
        return tuple(
            self._of(tensor, name + suffix)
            for tensor, suffix in zip(tensors, suffixes, strict=True)
        )

    def _of(self, tensor: Tensor, name: str) -> int:
        storage = tensor.untyped_storage()
        key = storage_key(storage)
        if key not in self.number:
            self.number[key] = len(self.size)
            self.size.append(storage.nbytes())
            self.name.append(name)
        return self.number[key]


def _tensors(values: Any) -> Iterable[Tensor]:
    return (leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, Tensor))
