"""Sees every allocation of a program that runs on fake tensors, and every free.

Note: how a run without a device is recorded
--------------------------------------------
Rationale. An eager program asks for memory when a kernel returns a new storage, and gives it back
when the last reference to the storage goes. Both happen on fake tensors as they do on a GPU: the
references are held by the same autograd graph, the same modules and the same Python frames.

Approach. A dispatch mode stands above the fake tensors. A storage among the results of an
operator that is not known yet is an allocation. A weak reference tells when the storage ends.
Views and in-place results bring no new storage. Kernels' own workspaces come from the rules of
:mod:`instances.extract.eager.workspaces`.

Autograd adds up the gradients of a tensor that is used several times. On a GPU it adds into the
first gradient if nothing else holds that one, so never into a view. It never adds into a tensor
subclass: under fake tensors it allocates a new tensor and drops the old one. The recorder undoes
such an addition, and the result lives on in the block of the first summand. An addition is
autograd's own if it runs within a backward pass with gradients switched off (recomputation switches
them on), and if the first summand ends before anything else happens.

Some programs ask questions that depend on data. "Does this hold for all elements?" is answered
with yes: such programs ask whether no token is padding and no sequence is packed with others, as
in full batches of text. A random number counts as one half, so that a layer is dropped if its
probability is above one half. A float that a program reads is one half too, which never divides
to infinity. Programs read their optimizer's step counter or print their loss, and neither
allocates anything.

Limits. A program that reads a whole number, which may be a length, is refused, and so are shapes
that depend on data. Scalars on the host, such as an optimizer's step counters, are fake CPU
tensors like the device's. So constants, and scalars that an optimizer makes without tensors, count
as the host's. A kernel allocates its results in their order, except dropout and cuDNN's attention,
which allocate masks and random states first.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    is_traceable_wrapper_subclass_type,
)
from torch.utils.weak import WeakIdKeyDictionary

from instances.extract.eager.engine_addition import engine_addition, in_engine
from instances.extract.eager.request_recorder import AllocatorRequest, RequestRecorder
from instances.extract.eager.workspaces import (
    FREE,
    NEXT_RESULT,
    RESULTS,
    WITHOUT_RESULTS,
    LibraryWorkspaces,
    result_bytes,
    workspace_script,
)

# The order of allocation of kernels that do not allocate their results in their order.
ALLOCATION_ORDER = {
    "native_dropout.default": (1, 0),
    "_scaled_dot_product_cudnn_attention.default": (6, 7, 0, 1),
}
# A program makes a constant on the host.
HOST_OPERATORS = frozenset({"lift_fresh.default", "lift.default"})
ASK_FOR_VALUE = "_local_scalar_dense.default"
# The value of a float that depends on data.
ONE_HALF = 0.5
DRAW = "rand.default"
COMPARISONS = {
    "lt.Scalar": operator.lt,
    "le.Scalar": operator.le,
    "gt.Scalar": operator.gt,
    "ge.Scalar": operator.ge,
}


# PyTorch leaves these untyped; the names let types check alike with PyTorch and without.
_Mode: Any = TorchDispatchMode
_weak_dictionary: Callable[[], Any] = WeakIdKeyDictionary


class AllocationMode(_Mode):
    """Records the allocations of a program on fake tensors while it is active."""

    def __init__(self, recorder: RequestRecorder) -> None:
        super().__init__()
        self.recorder = recorder
        self.recording = True
        self.scalars_on_host = False
        # True if only tensors are on the device that the program puts there or computes from such.
        self.by_name = False
        # True once the program has put a tensor on the device.
        self.is_placed = False
        # While an operator runs.
        self.is_inside = False
        # The storages of batches that the host has, and of what comes of them there.
        self._batches: set[int] = set()
        # The device that the running call names: True is the GPU, False the host.
        self._named: bool | None = None
        self._libraries = LibraryWorkspaces()
        # Random numbers, and the comparisons made from them.
        self._drawn = _weak_dictionary()
        self._compared = _weak_dictionary()
        self._watched: dict[int, tuple[weakref.ref[Any], AllocatorRequest | None]] = {}
        # The engine's latest addition: the storages of its first summand and of its result.
        self._addition: tuple[int, int] | None = None

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operator and record its allocations."""
        if any(map(is_traceable_wrapper_subclass_type, types)):
            # A tensor of several, such as a shard of a distributed one: they come by themselves.
            return NotImplemented
        name = f"{func.overloadpacket.__name__}.{func._overloadname}"
        if name == ASK_FOR_VALUE and args[0].dtype == torch.bool:
            return self._compared.get(args[0], True)
        if name == ASK_FOR_VALUE and args[0].is_floating_point():
            return ONE_HALF
        self.is_inside = True
        try:
            results = func(*args, **(kwargs or {}))
        finally:
            self.is_inside = False
        if name == DRAW and results.numel() == 1:
            self._drawn[results] = True
        elif name in COMPARISONS and args[0] in self._drawn:
            self._compared[results] = COMPARISONS[name](ONE_HALF, args[1])
        self._addition = None
        new = self._new_tensors(results, ALLOCATION_ORDER.get(name))
        if not new:
            if self.recording and name in WITHOUT_RESULTS:
                self._follow(workspace_script(name, in_order(func, args, kwargs), ()), (), ())
            return results
        if self.recording and not self._is_on_host(name, (args, kwargs), new):
            sizes = [result_bytes(name, args, tensor) for tensor in new]
            self._follow(workspace_script(name, args, new), new, sizes)
            for size in self._libraries.first_used_by(name, on_engine_thread=in_engine()):
                self.recorder.allocate(size)
            if len(new) == 1:
                self._addition = engine_addition(func, args, new[0])
        else:
            for tensor in new:
                self._watch(tensor.untyped_storage(), None)
        return results

    def adopt(self, tensors: Iterable[Tensor]) -> None:
        """Record that tensors made elsewhere are copied to the device, in this order."""
        for tensor in tensors:
            storage = tensor.untyped_storage()
            known = self._watched.get(storage._cdata)
            if known is None or known[1] is None:
                self._watched.pop(storage._cdata, None)
                self._watch(storage, self.recorder.allocate(storage.nbytes()))

    def adopt_all(self, but: Iterable[Tensor]) -> None:
        """Record a copy to the device of each live storage that is not recorded, except `but`."""
        left = {tensor.untyped_storage()._cdata for tensor in but}
        for key, (reference, request) in list(self._watched.items()):
            storage = reference()
            if storage is not None and request is None and key not in left:
                del self._watched[key]
                self._watch(storage, self.recorder.allocate(storage.nbytes()))

    def keep_on_host(self, tensors: Iterable[Tensor]) -> None:
        """Record that tensors belong to the host, and what is computed from them alone."""
        for tensor in tensors:
            storage = tensor.untyped_storage()
            if storage._cdata not in self._watched:
                self._watch(storage, None)
            self._batches.add(storage._cdata)

    def forget(self) -> None:
        """Forget all requests; what was made until now is not recorded."""
        self.recorder.clear()
        for key, (reference, _) in self._watched.items():
            self._watched[key] = (reference, None)
        self._libraries = LibraryWorkspaces()

    def is_on_gpu(self, tensor: Tensor) -> bool:
        """Return True if the storage of a tensor is recorded as one of the device."""
        return self.block_of(tensor) is not None

    @contextmanager
    def results_on(self, device: bool | None) -> Iterator[None]:
        """Within this context results are on the device if true, or on the host if false."""
        before, self._named = self._named, device
        self.is_placed = self.is_placed or device is True
        try:
            yield
        finally:
            self._named = before

    def resize(self, storage: Any, size: int) -> None:
        """Record that a program gives back the bytes of a storage, or asks for them again."""
        request = self._watched.pop(storage._cdata, (None, None))[1]
        if request is not None:
            self.recorder.free(request)
        self._watch(storage, self.recorder.allocate(size) if size and self.recording else None)

    def take_back(self, tensor: Tensor) -> None:
        """Record that a tensor belongs to the host, after all."""
        key = tensor.untyped_storage()._cdata
        reference, request = self._watched[key]
        if request is not None:
            self._watched[key] = (reference, None)
            if request is self.recorder.requests[-1]:
                self.recorder.take_back_last()
            else:
                self.recorder.free(request)

    def block_of(self, tensor: Tensor) -> AllocatorRequest | None:
        """Return the request that a tensor on the device was answered with."""
        return self._watched.get(tensor.untyped_storage()._cdata, (None, None))[1]

    @contextmanager
    def not_recorded(self) -> Iterator[None]:
        """Within this context the mode records frees but no allocations, as on the host."""
        before, self.recording = self.recording, False
        try:
            yield
        finally:
            self.recording = before

    @contextmanager
    def host_scalars(self) -> Iterator[None]:
        """Within this context, an optimizer's step, the host keeps scalars made of no tensor."""
        self.scalars_on_host = True
        try:
            yield
        finally:
            self.scalars_on_host = False

    def _new_tensors(self, results: Any, order: Sequence[int] | None) -> list[Tensor]:
        if order is not None:
            results = [results[index] for index in order]
        new: dict[int, Tensor] = {}
        for leaf in pytree.tree_leaves(results):
            if isinstance(leaf, Tensor):
                storage = leaf.untyped_storage()
                if storage._cdata not in self._watched and storage.nbytes() > 0:
                    new.setdefault(storage._cdata, leaf)
        return list(new.values())

    def _is_on_host(self, name: str, given: Any, new: Sequence[Tensor]) -> bool:
        if self._named is not None:
            return not self._named
        if name in HOST_OPERATORS:
            return True
        inputs = [leaf for leaf in pytree.tree_leaves(given) if isinstance(leaf, Tensor)]
        if self.by_name and not in_engine():
            return not any(map(self.is_on_gpu, inputs))
        if inputs:
            of_batch = all(leaf.untyped_storage()._cdata in self._batches for leaf in inputs)
            if of_batch:
                self.keep_on_host(new)
            return of_batch
        return self.scalars_on_host and all(tensor.dim() == 0 for tensor in new)

    def _follow(self, script: Sequence[int], new: Sequence[Tensor], sizes: Sequence[int]) -> None:
        taken: list[AllocatorRequest] = []
        results = iter(zip(new, sizes, strict=True))
        for step in script:
            if step in (RESULTS, NEXT_RESULT):
                for tensor, size in islice(results, 1 if step == NEXT_RESULT else None):
                    self._watch(tensor.untyped_storage(), self.recorder.allocate(size))
            elif step == FREE:
                self.recorder.free(taken.pop())
            else:
                taken.append(self.recorder.allocate(step))
        while taken:
            self.recorder.free(taken.pop())

    def _watch(self, storage: Any, request: AllocatorRequest | None) -> None:
        key = storage._cdata
        self._watched[key] = (weakref.ref(storage, self._end_of(key)), request)

    def _end_of(self, key: int) -> Callable[[Any], None]:
        def ended(_: Any) -> None:
            _, request = self._watched.pop(key)
            self._batches.discard(key)
            if request is None:
                return
            if self._addition is not None and self._addition[0] == key:
                reference, _ = self._watched[self._addition[1]]
                self._watched[self._addition[1]] = (reference, request)
                self._addition = None
                self._added_into(request)
            else:
                self.recorder.free(request)

        return ended

    def _added_into(self, _: AllocatorRequest) -> None:
        """Forget the request of an addition whose result lives in the block of a summand."""
        self.recorder.take_back_last()


def in_order(func: Any, args: tuple[Any, ...], kwargs: Any) -> list[Any]:
    """Return all arguments of an operator in the order of its schema."""
    names = [argument.name for argument in func._schema.arguments]
    return [*args, *((kwargs or {}).get(name) for name in names[len(args) :])]
