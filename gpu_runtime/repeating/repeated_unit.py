"""Calls that run again together, and the tensors that they make a second time.

Note: how long copies live
--------------------------
A tensor that is made again is a :class:`RepeatedTensor`. Whatever needs it later holds it: a saved
tensor of autograd, and each call that reads it when it runs again. So the copy ends with its last
use, by reference counts alone. A call that runs again lets go of what it read; it never runs a
third time.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils import _pytree as pytree

from gpu_runtime.repeating.kernel_calls import new_tensors, operator_of

# Keeps a storage's place in memory from being used again, but not its bytes.
_weak_reference: Callable[[torch.UntypedStorage], Any] = StorageWeakRef

CHANGED = (
    "a tensor that is needed for the backward pass was modified by an inplace operation after it "
    "was saved or read"
)


class RepeatedTensor:
    """A storage of the forward pass that is not kept, and its copy once it was made again."""

    def __init__(self, unit: RepeatedUnit, number: int, tensor: Tensor) -> None:
        self.unit = unit
        # In the order in which the tensors were made.
        self.number = number
        # How often calls have changed it in place.
        self.changes = 0
        self.storage: torch.UntypedStorage | None = None
        # As long as this lives, no other storage has the key of the first one.
        self._first = _weak_reference(tensor.untyped_storage())


@dataclass(frozen=True)
class View:
    """Which elements of a storage a tensor shows."""

    dtype: torch.dtype
    shape: torch.Size
    stride: tuple[int, ...]
    offset: int

    def of(self, storage: torch.UntypedStorage) -> Tensor:
        """Return the tensor that shows them."""
        empty: Any = torch.empty(0, dtype=self.dtype, device=storage.device)
        shown: Tensor = empty.set_(storage, self.offset, self.shape, self.stride)
        return shown


def view_of(tensor: Tensor) -> View:
    """Return which elements a tensor shows."""
    offset = int(tensor.storage_offset())
    return View(tensor.dtype, tensor.shape, tensor.stride(), offset)


@dataclass(frozen=True)
class RepeatedView:
    """A view of a repeated tensor that was saved, or read by a call of another unit."""

    source: RepeatedTensor
    view: View
    # Changes of the source until then.
    changes: int

    def tensor(self) -> Tensor:
        """Return the view in the copy, which is made if it is not there."""
        if self.changes != self.source.changes:
            raise RuntimeError(CHANGED)
        if self.source.storage is None:
            run_again(self.source)
        assert self.source.storage is not None
        return self.view.of(self.source.storage)


@dataclass(frozen=True)
class OwnView:
    """A view of the tensor that the same unit makes at this place: no unit holds itself."""

    place: int
    view: View


@dataclass(frozen=True)
class Kept:
    """A tensor that is kept until a second run or the backward pass has read it."""

    value: Tensor
    version: int

    def tensor(self) -> Tensor:
        """Return the tensor, which must not have changed."""
        if self.value._version != self.version:
            raise RuntimeError(CHANGED)
        return self.value


def kept(tensor: Tensor) -> Kept:
    """Return a tensor that counts its changes with this one, and does not hold its history.

    The history would hold the tensor in turn. Within an operator, the part of PyTorch that lets a
    view share the count is switched off.
    """
    if tensor.grad_fn is None:
        return Kept(tensor, tensor._version)
    core: Any = torch._C
    with core._PreserveDispatchKeyGuard():
        core._dispatch_tls_set_dispatch_key_excluded(core.DispatchKey.ADInplaceOrView, False)
        return Kept(tensor.detach(), tensor._version)


@dataclass(frozen=True)
class RecordedCall:
    """A call of an operator, ready to run again."""

    func: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    # The generator of its random numbers, and the state from which it draws.
    generator: torch.Generator | None
    random_state: Tensor | None


@dataclass(eq=False)
class RepeatedUnit:
    """Calls that run again together, in order."""

    calls: list[RecordedCall] = field(default_factory=list)
    # The tensors that it makes, as long as something needs them.
    made: list[weakref.ref[RepeatedTensor]] = field(default_factory=list)

    def inputs(self) -> list[RepeatedTensor]:
        """Return the repeated tensors of other units that it reads, the last made first."""
        found = {
            piece.source
            for call in self.calls
            for piece in pytree.tree_leaves((call.args, call.kwargs))
            if isinstance(piece, RepeatedView)
        }
        return sorted(found, key=lambda tensor: -tensor.number)

    def run(self) -> None:
        """Run the calls again, and hand the storages to those that need them."""
        calls, self.calls = self.calls[::-1], []
        storages: list[torch.UntypedStorage] = []
        while calls:
            _run_call(calls.pop(), storages)
        for reference, storage in zip(self.made, storages, strict=True):
            tensor = reference()
            if tensor is not None:
                tensor.storage = storage


def _run_call(call: RecordedCall, storages: list[torch.UntypedStorage]) -> None:
    """Run one call again, and append the storages that it makes."""

    def given(leaf: Any) -> Any:
        if isinstance(leaf, OwnView):
            return leaf.view.of(storages[leaf.place])
        return leaf.tensor() if isinstance(leaf, (RepeatedView, Kept)) else leaf

    args, kwargs = pytree.tree_map(given, (call.args, dict(call.kwargs)))
    args = list(args)
    for place, name in operator_of(call.func).statistics:
        if place < len(args) and args[place] is not None:
            args[place] = args[place].clone()
        elif kwargs.get(name) is not None:
            kwargs[name] = kwargs[name].clone()
    if call.generator is None or call.random_state is None:
        result = call.func(*args, **kwargs)
    else:
        now = call.generator.get_state()
        call.generator.set_state(call.random_state)
        try:
            result = call.func(*args, **kwargs)
        finally:
            call.generator.set_state(now)
    storages += [tensor.untyped_storage() for tensor in new_tensors(result, args, kwargs)]


def run_again(wanted: RepeatedTensor) -> None:
    """Run the unit of a tensor again, and before it those whose results it reads.

    Units run in the order of :meth:`planners.recompute.RepeatableStep.late_sequence`.
    """
    with torch.no_grad(), torch._C._DisableAutocast():
        asked = {wanted.unit}
        stack = [(wanted.unit, wanted.unit.inputs())]
        while stack:
            unit, inputs = stack[-1]
            if not inputs:
                unit.run()
                stack.pop()
                continue
            needed = inputs.pop()
            if needed.storage is None and needed.unit not in asked:
                asked.add(needed.unit)
                stack.append((needed.unit, needed.unit.inputs()))
            del needed
