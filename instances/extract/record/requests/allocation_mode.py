"""Sees every allocation of a program that runs on fake tensors, and every free.

Note: how a run without a device is recorded
--------------------------------------------
Rationale. An eager program asks for memory when a kernel returns a new storage, and gives it back
when the last reference to the storage goes. Both happen on fake tensors as they do on a GPU: the
references are held by the same autograd graph, the same modules and the same Python frames.

Approach. A dispatch mode stands above the fake tensors. A storage among the results of an
operator that is not known yet is an allocation. A weak reference tells when the storage ends.
Views and in-place results bring no new storage. Kernels' own workspaces come from the rules of
:mod:`instances.extract.record.requests.workspaces`.

Autograd adds up the gradients of a tensor that is used several times. On a GPU it adds into the
first gradient if nothing else holds that one, so never into a view. It never adds into a tensor
subclass: under fake tensors it allocates a new tensor and drops the old one. The recorder undoes
such an addition, and the result lives on in the block of the first summand. An addition is
autograd's own if it runs within a backward pass with gradients switched off (recomputation switches
them on), and if the first summand ends before anything else happens.

Some programs ask questions that depend on data. "Does this hold for all elements?" is answered
with yes: such programs ask whether no token is padding and no sequence is packed with others, as
in full batches of text. "Does this hold for any?" is answered with no: they look for what is wrong,
such as infinities or empty boxes. A random number counts as one half, so that a layer is dropped if
its probability is above one half. A float that a program reads is one half too, which never divides
to infinity. Programs read their optimizer's step counter or print their loss, and neither
allocates anything. The largest and the smallest of whole numbers are one, because programs check
that labels are within limits.

Each storage has a device from its creation on, although all of them are fake tensors of the CPU.
It is the one that the program names for it. Where none is named, a result is where the arguments
of its operator are: with the first one that has dimensions. An operator without arguments, as
inside of a composite function, is where the tensors are that the program called with, or else on
the default device. Storages of the host are followed, and not recorded. Tensors on the device meta
have no storage anywhere.

Limits. A whole number that is read from the GPU is refused as a length, and so are shapes that
depend on data. A kernel allocates its results in their order, except dropout and cuDNN's
attention, which allocate masks and random states first.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    is_traceable_wrapper_subclass,
    is_traceable_wrapper_subclass_type,
)
from torch.utils.weak import WeakIdKeyDictionary

from instances.extract.kernels.call_effort import written_arguments
from instances.extract.record.requests import known_counts
from instances.extract.record.requests.engine_addition import engine_addition, in_engine
from instances.extract.record.requests.picked_rows import SAID, all_rows
from instances.extract.record.requests.request_recorder import AllocatorRequest, RequestRecorder
from instances.extract.record.requests.workspaces import (
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
# A constant, which a program makes on the host.
CONSTANTS = frozenset({"lift_fresh.default", "lift.default"})
ASK_FOR_VALUE = "_local_scalar_dense.default"
# The value of a float that depends on data.
ONE_HALF = 0.5
DRAW = "rand.default"
ANY = ("any.default", "any.dim")
EXTREMES = ("max.default", "min.default")
COMPARISONS = {
    "lt.Scalar": operator.lt,
    "le.Scalar": operator.le,
    "gt.Scalar": operator.gt,
    "ge.Scalar": operator.ge,
}


# PyTorch leaves these untyped; the names let types check alike with PyTorch and without.
_Mode: Any = TorchDispatchMode
_weak_dictionary: Callable[[], Any] = WeakIdKeyDictionary


class _Storage(NamedTuple):
    reference: weakref.ref[Any]
    on_gpu: bool
    # None of a storage of the host, and of one that was made while nothing was recorded.
    request: AllocatorRequest | None
    # False if the block does not end with the storage.
    owns: bool = True


class AllocationMode(_Mode):
    """Records the allocations of a program on fake tensors while it is active."""

    def __init__(self, recorder: RequestRecorder) -> None:
        super().__init__()
        self.recorder = recorder
        self.recording = True
        # The device of tensors of which a program says nothing: True is the GPU, False the host.
        self.default_on_gpu = False
        # True once the program has put a tensor on the GPU.
        self.is_placed = False
        # Notes about the trace, which an answer prints, as keys.
        self.notes: dict[str, None] = {}
        # The number of times its even share of tokens that an expert of this rank gets.
        self.imbalance = 1.0
        # While an operator runs.
        self.is_inside = False
        # Called with each tensor that an operator writes in place.
        self.on_write: Callable[[Any], None] = lambda _: None
        # The device that the running call names, and the call's arguments.
        self._named: bool | None = None
        self._given: Any = ()
        self._libraries = LibraryWorkspaces()
        self._of_libraries: list[AllocatorRequest] = []
        # Numbers that are taken for a value, and the comparisons made from them.
        self._taken_for = _weak_dictionary()
        self._compared = _weak_dictionary()
        self._watched: dict[int, _Storage] = {}
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
        if name == ASK_FOR_VALUE and getattr(args[0], "constant", None) is not None:
            return func(*args)
        if name == ASK_FOR_VALUE and args[0].dtype == torch.bool:
            return self._compared.get(args[0], True)
        if name == ASK_FOR_VALUE and args[0].is_floating_point():
            return ONE_HALF
        sent = known_counts.sent_by(name, args)
        self.is_inside = True
        try:
            results = known_counts.counted(name, args)
            if results is None:
                results = func(*args, **(kwargs or {}))
            else:
                self.notes[known_counts.EVEN.format(self.imbalance)] = None
        except (DataDependentOutputException, DynamicOutputShapeException):
            results = all_rows(name, func, args)
            if results is None:
                raise
            self.notes[SAID] = None
        finally:
            self.is_inside = False
        if sent is not None:
            received = args[0] if func.namespace == "c10d" else results
            known_counts.exchange(sent, received, self.imbalance)
        if name == DRAW and results.numel() == 1:
            self._taken_for[results] = ONE_HALF
        elif name in EXTREMES and not results.is_floating_point():
            self._taken_for[results] = 1
        elif name in ANY:
            self._compared[results] = False
        elif name in COMPARISONS and args[0] in self._taken_for:
            self._compared[results] = COMPARISONS[name](self._taken_for[args[0]], args[1])
        self._addition = None
        if func._schema.is_mutable and name not in WITHOUT_RESULTS and func.namespace == "aten":
            for tensor in pytree.tree_leaves(written_arguments(func._schema, args, kwargs or {})):
                self.on_write(tensor)
        new = self._new_tensors(results, ALLOCATION_ORDER.get(name))
        if not new:
            if self.recording and name in WITHOUT_RESULTS:
                self._follow(workspace_script(name, in_order(func, args, kwargs), ()), (), ())
            return results
        on_gpu = self._makes_on_gpu(name, (args, kwargs))
        if self.recording and on_gpu:
            sizes = [result_bytes(name, args, tensor) for tensor in new]
            self._follow(workspace_script(name, args, new), new, sizes)
            self.use_library(name)
            if len(new) == 1:
                self._addition = engine_addition(func, args, new[0])
        else:
            for tensor in new:
                self._watch(tensor.untyped_storage(), on_gpu, None)
        return results

    def use_library(self, name: str) -> None:
        """Record the lasting workspaces that a library allocates when an operator first uses it."""
        stream = self.recorder.current_stream()
        for size in self._libraries.first_used_by(name, stream, on_engine_thread=in_engine()):
            self._of_libraries.append(self.recorder.allocate(size))

    def clear_libraries(self) -> None:
        """Record that libraries give their workspaces back."""
        while self._of_libraries:
            self.recorder.free(self._of_libraries.pop())
        self._libraries = LibraryWorkspaces()

    def adopt(self, tensors: Iterable[Tensor]) -> None:
        """Record that tensors made elsewhere are copied to the GPU, in this order."""
        for tensor in tensors:
            storage = tensor.untyped_storage()
            if self.block_of(tensor) is None:
                self._watch(storage, True, self.recorder.allocate(storage.nbytes()))

    def adopt_all(self, but: Iterable[Tensor]) -> None:
        """Record a copy to the GPU of each live storage that is not recorded, except `but`."""
        left = {tensor.untyped_storage()._cdata for tensor in but}
        for key, (reference, _, request, _) in list(self._watched.items()):
            storage = reference() if request is None and key not in left else None
            if storage is not None and (size := storage.nbytes()):
                self._watch(storage, True, self.recorder.allocate(size))

    def storage_of(self, tensor: Tensor) -> int:
        """Return the key of a tensor's storage; of a distributed tensor, of its shard's."""
        if is_traceable_wrapper_subclass(tensor):
            inner: Any = tensor
            return self.storage_of(getattr(inner, inner.__tensor_flatten__()[0][0]))
        key: int = tensor.untyped_storage()._cdata
        return key

    def is_on_gpu(self, tensor: Tensor) -> bool:
        """Return True if a tensor is on the GPU."""
        known = self._watched.get(self.storage_of(tensor))
        return known is not None and known.on_gpu

    @contextmanager
    def called(self, given: Any, device: bool | None) -> Iterator[None]:
        """Within this context a program's call runs, which may name the device of its results."""
        before = self._given, self._named
        self._given, self._named = given, device
        self.is_placed = self.is_placed or device is True
        try:
            yield
        finally:
            self._given, self._named = before

    def resize(self, storage: Any, size: int) -> None:
        """Record that a program gives back the bytes of a storage, or asks for them again."""
        known = self._watched.get(storage._cdata)
        if known is None:  # PyTorch makes a result with it
            return
        if known.request is not None and known.owns:
            self.recorder.free(known.request)
        asks = size > 0 and known.on_gpu and self.recording
        self._watch(storage, known.on_gpu, self.recorder.allocate(size) if asks else None)

    def block_of(self, tensor: Tensor) -> AllocatorRequest | None:
        """Return the request that a tensor on the GPU was answered with."""
        known = self._watched.get(tensor.untyped_storage()._cdata)
        return None if known is None else known.request

    def address_of(self, key: int) -> int:
        """Return what stands for the address of a storage, given by its key."""
        known = self._watched.get(key)
        return key if known is None or known.request is None else known.request.address

    def lend(self, storage: Any, request: AllocatorRequest | None) -> None:
        """Record that a new storage lies in a block, which does not end with it."""
        self._watch(storage, True, request)
        self._watched[storage._cdata] = self._watched[storage._cdata]._replace(owns=False)

    def hand_over(self, key: int, request: AllocatorRequest) -> None:
        """Record that a block ends with a storage from now on."""
        self._watched[key] = self._watched[key]._replace(request=request, owns=True)

    def let_go(self, key: int) -> None:
        """Record that the block of a storage is freed while the storage lives on."""
        known = self._watched[key]
        if known.owns and known.request is not None:
            self.recorder.free(known.request)
        self._watched[key] = known._replace(owns=False)

    @contextmanager
    def not_recorded(self) -> Iterator[None]:
        """Within this context the mode records frees but no allocations, as on the host."""
        before, self.recording = self.recording, False
        try:
            yield
        finally:
            self.recording = before

    def _new_tensors(self, results: Any, order: Sequence[int] | None) -> list[Tensor]:
        if order is not None:
            results = [results[index] for index in order]
        new: dict[int, Tensor] = {}
        for leaf in pytree.tree_leaves(results):
            if isinstance(leaf, Tensor):
                storage = leaf.untyped_storage()
                if storage._cdata not in self._watched and leaf.device.type != "meta":
                    new.setdefault(storage._cdata, leaf)
        return list(new.values())

    def _makes_on_gpu(self, name: str, given: Any) -> bool:
        """Return True if the results of an operator are on the GPU."""
        if self._named is not None:
            return self._named
        is_constant = name in CONSTANTS
        for tensors in map(_tensors_in, ((), self._given) if is_constant else (given, self._given)):
            leads = next((one for one in tensors if one.dim()), None)
            if leads is not None or tensors:
                return any(map(self.is_on_gpu, tensors if leads is None else [leads]))
        return self.default_on_gpu and not is_constant

    def _follow(self, script: Sequence[int], new: Sequence[Tensor], sizes: Sequence[int]) -> None:
        taken: list[AllocatorRequest] = []
        results = iter(zip(new, sizes, strict=True))
        for step in script:
            if step in (RESULTS, NEXT_RESULT):
                for tensor, size in islice(results, 1 if step == NEXT_RESULT else None):
                    request = self.recorder.allocate(size) if size else None
                    self._watch(tensor.untyped_storage(), True, request)
            elif step == FREE:
                self.recorder.free(taken.pop())
            else:
                taken.append(self.recorder.allocate(step))
        while taken:
            self.recorder.free(taken.pop())

    def _watch(self, storage: Any, on_gpu: bool, request: AllocatorRequest | None) -> None:
        key = storage._cdata
        self._watched[key] = _Storage(weakref.ref(storage, self._end_of(key)), on_gpu, request)

    def _end_of(self, key: int) -> Callable[[Any], None]:
        def ended(_: Any) -> None:
            _, _, request, owns = self._watched.pop(key)
            if request is None:
                return
            if self._addition is not None and self._addition[0] == key:
                result = self._addition[1]
                self._watched[result] = self._watched[result]._replace(request=request, owns=owns)
                self._addition = None
                self._added_into(request)
            elif owns:
                self.recorder.free(request)

        return ended

    def _added_into(self, _: AllocatorRequest) -> None:
        """Forget the request of an addition whose result lives in the block of a summand."""
        self.recorder.take_back_last()


def _tensors_in(values: Any) -> list[Any]:
    return [leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, Tensor)]


def in_order(func: Any, args: tuple[Any, ...], kwargs: Any) -> list[Any]:
    """Return all arguments of an operator in the order of its schema."""
    names = [argument.name for argument in func._schema.arguments]
    return [*args, *((kwargs or {}).get(name) for name in names[len(args) :])]
