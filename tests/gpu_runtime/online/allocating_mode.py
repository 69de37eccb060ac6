"""A PyTorch program on a processor that asks an online allocator for the memory of its tensors."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.nn import Module
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from gpu_runtime._core import ServingOnlineAllocator

# PyTorch leaves this untyped; the name lets types check alike with PyTorch and without.
_Mode: Any = TorchDispatchMode


class AllocatingMode(_Mode):
    """Each storage that an operator makes has a block of the allocator until the storage ends.

    A block has `scale` times the bytes of its storage: little work stands for much memory.
    """

    def __init__(self, allocator: ServingOnlineAllocator, scale: int = 1 << 12) -> None:
        super().__init__()
        self.allocator = allocator
        self.scale = scale
        self.addresses: list[int] = []
        self._live: dict[int, weakref.ref[Any]] = {}

    def adopt(self, net: Module) -> None:
        """Take memory for the weights of a network."""
        for parameter in net.parameters():
            self._take(parameter)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operator and take memory for its new storages."""
        results = func(*args, **(kwargs or {}))
        for leaf in pytree.tree_leaves(results):
            if isinstance(leaf, Tensor):
                self._take(leaf)
        return results

    def _take(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        if storage._cdata not in self._live and storage.nbytes() > 0:
            address = self.allocator.allocate(self.scale * storage.nbytes())
            self.addresses.append(address)
            end = self._end_of(storage._cdata, address)
            self._live[storage._cdata] = weakref.ref(storage, end)

    def _end_of(self, key: int, address: int) -> Callable[[Any], None]:
        def ended(_: Any) -> None:
            del self._live[key]
            assert self.allocator.free(address)

        return ended
