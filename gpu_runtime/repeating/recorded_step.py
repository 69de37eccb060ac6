"""Runs a step on fake tensors and records its kernels, and when each tensor is saved and freed.

Note: when a tensor is needed
-----------------------------
Rationale. A second run frees a tensor only if nothing else holds it, and a peak is right to a per
cent only if each tensor ends in the graph where it ends in the program.

Approach. The step runs on fake tensors of the device that its inputs are on, so that PyTorch
chooses the kernels that it will choose later. What autograd saves is not kept: a hook remembers
which tensor it was, and the backward pass gets a new fake tensor. So a storage that a kernel of the
forward pass made ends when the program drops it. The new fake tensor ends when the backward pass
does. Both ends are in the graph. One that something else than autograd holds in the backward pass
is not made again, since that would free nothing.

Autograd adds the gradients of a tensor that is used several times, and adds into the first if
nothing else holds it. It never adds into a fake tensor, so the record is corrected.

Limits. A program that asks for values is answered only where the answer is true or false: true, as
full batches of text ask whether no token is padding. Gradients that exist before the step are
not in the record.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.autograd.graph import saved_tensors_hooks
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from gpu_runtime.repeating.kernel_calls import (
    new_tensors,
    operator_of,
    storage_key,
    tensors_of,
)
from instances.extract.kernels.call_effort import effort_of_call
from instances.extract.kernels.storages import Effort, Kernel, StepPhase, StorageTable
from instances.extract.record.gpu.eager_branches import eager_branches
from instances.extract.record.requests.engine_addition import engine_addition, leaves_below
from planners.errors import GaplessError

# Nodes that are not kernels: the backward pass asks for a saved tensor; tensors are let go.
UNPACK, RELEASE = "unpack", "release"
LIFT = "lift_fresh"
ASK_FOR_VALUE = "_local_scalar_dense"
NOTHING = Effort(0, 0)


@dataclass
class RecordedStep:
    """The forward and backward pass of a step."""

    # Kernels, and places where tensors are asked for or let go.
    kernels: list[Kernel]
    storages: StorageTable
    # Storages of tensors that were there before the step.
    outside: frozenset[int]
    # The kernels that PyTorch says may run again, by their places.
    may_repeat: frozenset[int]
    # Tensors that the program itself still holds when the backward pass begins.
    held: frozenset[int]
    precision: str


_Mode: Any = TorchDispatchMode


class _StepRecorder(_Mode):
    def __init__(self, fake: FakeTensorMode) -> None:
        super().__init__()
        self.kernels: list[Kernel] = []
        self.storages = StorageTable((), ())
        self.may_repeat: set[int] = set()
        # Tensors that were there before the step, by the numbers of their storages.
        self.outside: dict[int, Tensor] = {}
        self.phase = StepPhase.FORWARD
        # Floating-point operations by dtype.
        self.flops: dict[torch.dtype, int] = {}
        self._fake = fake
        self._is_recording = True
        # The number of each storage alive.
        self._tensor: dict[int, int] = {}
        self._references: dict[int, weakref.ref[Any]] = {}
        # The storages of the first summand and of the result of the engine's latest addition.
        self._addition: tuple[int, int] | None = None

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operator on fake tensors, and record it if it is a kernel."""
        kwargs = kwargs or {}
        operator = operator_of(func)
        if not self._is_recording or operator.name == LIFT:
            return func(*args, **kwargs)
        if operator.name == ASK_FOR_VALUE and args[0].dtype == torch.bool:
            return True
        args, kwargs = pytree.tree_map_only(Tensor, self._as_fake, (args, kwargs))
        result = func(*args, **kwargs)
        if operator.is_kernel:
            self._record(func, args, kwargs, result)
        return result

    def numbers_alive(self) -> list[int]:
        """Return the tensors that something holds."""
        return sorted({*self._tensor.values()} - self.outside.keys())

    def stop(self) -> None:
        """Record that all tensors that are alive were held until here, and nothing more."""
        self._is_recording = False
        self._let_go(self.numbers_alive())

    def pack(self, tensor: Tensor) -> Any:
        """Remember which tensor autograd saves."""
        number = self._tensor.get(storage_key(tensor))
        if number is None or number in self.outside:
            return tensor
        return number, tensor.shape, tensor.stride(), tensor.dtype, tensor.device

    def unpack(self, saved: Any) -> Tensor:
        """Return a new fake tensor in place of the saved one."""
        if isinstance(saved, Tensor):
            return saved
        number, shape, stride, dtype, device = saved
        before, self._is_recording = self._is_recording, False
        with self._fake:
            tensor = torch.empty_strided(shape, stride, dtype=dtype, device=device)
        self._is_recording = before
        self.kernels.append(Kernel(UNPACK, self.phase, (number,), effort=NOTHING))
        self._watch(tensor, number)
        return tensor

    def _as_fake(self, tensor: Tensor) -> Tensor:
        if isinstance(tensor, FakeTensor):
            return tensor
        fake = self._fake.from_tensor(tensor)
        if storage_key(fake) not in self._tensor:
            number = self.storages.add(fake.untyped_storage().nbytes(), "outside")
            self._tensor[storage_key(fake)], self.outside[number] = number, fake
        return fake

    def _record(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        operator = operator_of(func)
        writes = self._numbers(operator.written_tensors(args, kwargs))
        reads = [one for one in self._numbers(tensors_of((args, kwargs))) if one not in writes]
        effort = effort_of_call(func, args, kwargs, result)
        place = len(self.kernels)
        if operator.is_repeatable:
            self.may_repeat.add(place)
        new = [
            tensor
            for tensor in new_tensors(result, args, kwargs)
            if storage_key(tensor) not in self._tensor
        ]
        made: list[int] = []
        for tensor in new:
            suffix = f".{len(made)}" if len(new) > 1 else ""
            size, name = tensor.untyped_storage().nbytes(), f"{operator.name}_{place}{suffix}"
            made.append(self.storages.add(size, name))
            self._watch(tensor, made[-1])
            self.flops[tensor.dtype] = self.flops.get(tensor.dtype, 0) + effort.flops
        self.kernels.append(
            Kernel(operator.name, self.phase, tuple(reads), tuple(writes), tuple(made), (), effort)
        )
        self._addition = engine_addition(func, args, new[0]) if len(new) == 1 else None

    def _numbers(self, tensors: Iterable[Tensor]) -> list[int]:
        keys = dict.fromkeys(map(storage_key, tensors))
        return [self._tensor[key] for key in keys if key in self._tensor]

    def _watch(self, tensor: Tensor, number: int) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        self._tensor[key] = number
        self._references[key] = weakref.ref(storage, self._end_of(key))

    def _end_of(self, key: int) -> Callable[[Any], None]:
        def ended(_: Any) -> None:
            number = self._tensor.pop(key)
            del self._references[key]
            if not self._is_recording:
                return
            if self._addition is not None and self._addition[0] == key:
                self._add_into(number, self._addition[1])
            else:
                self._let_go([number])

        return ended

    def _add_into(self, summand: int, result: int) -> None:
        """Let the result of an addition live in its first summand."""
        self._addition = None
        last = self.kernels[-1]
        self.kernels[-1] = replace(
            last,
            reads=tuple(one for one in last.reads if one != summand),
            writes=(*last.writes, summand),
            creates=tuple(one for one in last.creates if one != self._tensor[result]),
        )
        self._tensor[result] = summand

    def _let_go(self, numbers: list[int]) -> None:
        last = self.kernels[-1]
        later = tuple(number for number in numbers if number not in last.touches)
        if last.op == RELEASE:
            self.kernels[-1] = replace(last, reads=(*last.reads, *later))
        elif later:
            self.kernels.append(Kernel(RELEASE, self.phase, later, effort=NOTHING))


def record_step(loss_of: Callable[[], Tensor]) -> RecordedStep:
    """Record the forward and the backward pass of a function that returns a loss.

    Nothing is computed, and no memory of the device is used. Buffers, parameters and their
    gradients stay as they are.

    Raises
    ------
    GaplessError
        The loss depends on no parameter, or the step on values of its data.
    """
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    recorder = _StepRecorder(fake)
    torch.clear_autocast_cache()
    try:
        # Importing transformers takes long, and a program that has not done so does not need it.
        branches = eager_branches() if "transformers" in sys.modules else nullcontext()
        with branches, fake, recorder:
            with saved_tensors_hooks(recorder.pack, recorder.unpack):
                loss = loss_of()
            leaves = list(leaves_below([loss]))
            if not leaves:
                raise GaplessError(
                    "a loss that depends on a parameter is needed, found one without"
                )
            held = frozenset(recorder.numbers_alive())
            recorder.phase = StepPhase.BACKWARD
            gradients = torch.autograd.grad(loss, leaves, allow_unused=True)
            recorder.stop()
            del gradients
    except (DataDependentOutputException, DynamicOutputShapeException) as error:
        raise GaplessError(
            f"a step whose memory depends on values of its data cannot be recorded, as fake "
            f"tensors have none; found {error}"
        ) from None
    finally:
        # Casts of parameters in it are fake.
        torch.clear_autocast_cache()
    main = max(recorder.flops, key=lambda dtype: recorder.flops[dtype], default=torch.float32)
    precision = "float32" if main == torch.float32 else "bfloat16"
    return RecordedStep(
        recorder.kernels, recorder.storages, frozenset(recorder.outside),
        frozenset(recorder.may_repeat), held, precision,
    )  # fmt: skip
