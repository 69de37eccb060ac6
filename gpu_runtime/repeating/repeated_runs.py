"""Runs a forward pass so that its backward pass computes chosen results again."""

from __future__ import annotations

import warnings
import weakref
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    is_traceable_wrapper_subclass_type,
)

from gpu_runtime.repeating.decision import Decision
from gpu_runtime.repeating.kernel_calls import (
    Operator,
    new_tensors,
    operator_of,
    storage_key,
    tensors_of,
)
from gpu_runtime.repeating.repeated_unit import (
    OwnView,
    RecordedCall,
    RepeatedTensor,
    RepeatedUnit,
    RepeatedView,
    kept,
    view_of,
)
from planners.errors import GaplessError

_Mode: Any = TorchDispatchMode


class RepeatedRuns(_Mode):
    """Within this context a forward pass does not keep what its backward pass computes again.

    The backward pass comes behind the context. Its results have the same bits as without. What a
    second run reads must be as it was: a parameter that changed before the backward pass is an
    error, as in PyTorch.

    Parameters
    ----------
    decision
        Which kernels run again.
    strict
        Whether a forward pass with other kernels than the decision's is an error. By default, what
        comes from the first other kernel on is kept, with a warning.

    Raises
    ------
    GaplessError
        The forward pass has other kernels than the decision, and `strict` is set.
    """

    def __init__(self, decision: Decision, *, strict: bool = False) -> None:
        super().__init__()
        self._decision = decision
        self._strict = strict
        self._hooks: list[saved_tensors_hooks] = []
        self._begin()

    def _begin(self) -> None:
        self._kernels = 0
        self._differs = False
        self._units: dict[int, RepeatedUnit] = {}
        # By storage.
        self._repeated: dict[int, RepeatedTensor] = {}
        self._made = 0

    def __enter__(self) -> Any:
        """Begin a forward pass."""
        self._begin()
        hooks = saved_tensors_hooks(self._pack, _unpack)
        hooks.__enter__()
        self._hooks.append(hooks)
        return super().__enter__()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        """End the forward pass."""
        super().__exit__(kind, error, trace)
        self._hooks.pop().__exit__(kind, error, trace)
        kernels, differs = self._kernels, self._differs
        self._begin()
        if kind is None and not differs and kernels < len(self._decision.ops):
            self._say_differs(kernels, self._decision.ops[kernels], "the end")

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operator, and record it if it runs again."""
        if any(map(is_traceable_wrapper_subclass_type, types)):
            return NotImplemented
        kwargs = kwargs or {}
        operator = operator_of(func)
        if not operator.is_kernel:
            return func(*args, **kwargs)
        number = self._next_unit(operator.name)
        written = [storage_key(tensor) for tensor in operator.written_tensors(args, kwargs)]
        if number >= 0:
            unit = self._units.setdefault(number, RepeatedUnit())
            result = self._recorded(unit, func, args, kwargs)
        else:
            unit = None
            result = func(*args, **kwargs)
        for key in written:
            self._note_change(key, unit, operator)
        return result

    def _next_unit(self, name: str) -> int:
        """Return the unit of the next kernel, -1 if it does not run again."""
        place, ops = self._kernels, self._decision.ops
        self._kernels += 1
        if self._differs:
            return -1
        expected = ops[place] if place < len(ops) else "the end"
        if name != expected:
            self._differs = True
            self._say_differs(place, expected, name)
            return -1
        return self._decision.unit[place]

    def _say_differs(self, place: int, expected: str, found: str) -> None:
        text = (
            f"forward pass, kernel {place}: {expected} is needed, as where the decision was made, "
            f"found {found}"
        )
        if self._strict:
            raise GaplessError(text)
        warnings.warn(f"{text}; what follows is kept", stacklevel=4)

    def _recorded(self, unit: RepeatedUnit, func: Any, args: Any, kwargs: Any) -> Any:
        operator = operator_of(func)
        generator = _generator(args, kwargs) if operator.is_random else None
        state = None if generator is None else generator.get_state()
        again, options = pytree.tree_map_only(
            Tensor, lambda tensor: self._input(unit, tensor), (args, kwargs)
        )
        call = RecordedCall(func, again, options, generator, state)
        result = func(*args, **kwargs)
        unit.calls.append(call)
        for tensor in new_tensors(result, args, kwargs):
            made = RepeatedTensor(unit, self._made, tensor)
            self._made += 1
            unit.made.append(weakref.ref(made))
            self._repeated[storage_key(tensor)] = made
        return result

    def _input(self, unit: RepeatedUnit, tensor: Tensor) -> Any:
        source = self._source(tensor)
        if source is None:
            return kept(tensor)
        if source.unit is unit:
            place = next(p for p, made in enumerate(unit.made) if made() is source)
            return OwnView(place, view_of(tensor))
        return RepeatedView(source, view_of(tensor), source.changes)

    def _source(self, tensor: Tensor) -> RepeatedTensor | None:
        if not tensors_of(tensor) or tensor.is_conj() or tensor.is_neg():
            return None
        return self._repeated.get(storage_key(tensor))

    def _note_change(self, key: int, unit: RepeatedUnit | None, operator: Operator) -> None:
        source = self._repeated.get(key)
        if source is None:
            return
        source.changes += 1
        if source.unit is not unit:
            # From here on the tensor is kept, since its unit would not make it as it is now.
            del self._repeated[key]
            if self._strict:
                raise GaplessError(
                    f"forward pass, kernel {self._kernels - 1}: {operator.name} changes a tensor "
                    f"in place that runs again without it; both have to be of one unit"
                )

    def _pack(self, tensor: Tensor) -> Any:
        source = self._source(tensor)
        if source is not None:
            return RepeatedView(source, view_of(tensor), source.changes)
        if not tensors_of(tensor):
            return tensor
        return kept(tensor)


def _unpack(saved: Any) -> Tensor:
    tensor: Tensor = saved if isinstance(saved, Tensor) else saved.tensor()
    return tensor


def _generator(args: Any, kwargs: Any) -> torch.Generator:
    """Return the generator that a call draws from."""
    given: torch.Generator | None = kwargs.get("generator")
    if given is not None:
        return given
    tensors = tensors_of((args, kwargs))
    device = torch.device(tensors[0].device if tensors else kwargs.get("device") or "cpu")
    if device.type == "cuda":
        index = torch.cuda.current_device() if device.index is None else device.index
        return torch.cuda.default_generators[index]
    return torch.default_generator
