"""Trace a whole training step on fake tensors: forward, loss, backward, optimizer.

Note: how the step is traced
----------------------------
Rationale. The graph must hold what a GPU runs in one step, with real sizes, on any machine and
without memory for it.

Approach. Everything is built and run under one ``FakeTensorMode``; ``make_fx`` records the
operators below autograd, so the backward pass and the optimizer are in the graph like any other
operator. In-place operators stay in place: functionalising would turn each into a tensor that no
device allocates (and fails within ``autograd.grad``). The optimizer alone is functional, written
so in :mod:`instances.extract.optimizers`: it returns new values, and the trace says which
persistent storage each one becomes.

Limits. Workspaces that a kernel allocates for itself (cuBLAS, sorting in the embedding's backward)
are invisible here and left out, and so is the host: data loading, the learning-rate schedule.
Logits die with the log-softmax that reads them, as in a loop that keeps nothing but the loss.
Gradients of one tensor are added into a new one, where eager autograd may reuse a dying summand.
On BERT-base none of this is alive at the peak: PyTorch on an H200 reports the same peak to 200
bytes (``tests/instances/test_extract.py``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call
from torch.fx import Node
from torch.fx.experimental.proxy_tensor import get_proxy_mode, make_fx
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils import _pytree as pytree

from instances.extract.gpu_kernels import gpu_kernels
from instances.extract.optimizers import Optimizer, clip_factor
from instances.extract.storages import Phase, Trace, TracedOp

Build = Callable[[], tuple[torch.nn.Module, dict[str, Tensor]]]

# Identifies a storage as long as something keeps it alive, which here the graph does.
_storage_key: Callable[[torch.UntypedStorage], Any] = StorageWeakRef


def trace_training_step(build: Build, optimizer: Optimizer, clip_norm: float) -> Trace:
    """Trace one training step without computing anything.

    Parameters
    ----------
    build
        Returns a module in training mode and its batch; called where tensors are fake.
    optimizer
        Updates each parameter.
    clip_norm
        Largest global norm of the gradients; 0 leaves clipping out.

    Returns
    -------
    Trace
        What ran, storage by storage.
    """
    with FakeTensorMode(), gpu_kernels():
        module, batch = build()
        step = _Step(module, optimizer, clip_norm)
        parameters = list(module.parameters())
        gradient_names = [f"grad {name}" for name, _ in module.named_parameters()]
        state = [optimizer.initial_state(parameter.detach()) for parameter in parameters]
        arguments = (batch, dict(module.named_buffers()), parameters, state)
        graph = make_fx(step, tracing_mode="fake")(*arguments).graph
    # Kernels whose results nobody uses are left out, as any compiler would: leftovers of building
    # the attention mask. In-place operators count as used.
    graph.eliminate_dead_code()
    return _read_graph(graph, list(batch), gradient_names, step.phase_starts)


class _Step:
    """The traced function, and where in the graph its phases begin."""

    def __init__(self, module: torch.nn.Module, optimizer: Optimizer, clip_norm: float) -> None:
        self.module = module
        self.optimizer = optimizer
        self.clip_norm = clip_norm
        self.phase_starts: dict[Phase, set[str]] = {}

    def __call__(
        self,
        batch: dict[str, Tensor],
        buffers: dict[str, Tensor],
        parameters: list[Tensor],
        state: list[tuple[Tensor, ...]],
    ) -> tuple[Any, ...]:
        named = dict(zip(dict(self.module.named_parameters()), parameters, strict=True))
        loss = functional_call(self.module, (named, buffers), (), batch).loss
        self._begin(Phase.BACKWARD)
        found = torch.autograd.grad(loss, parameters, allow_unused=True)
        gradients = _unshared(found, [*parameters, *buffers.values(), *batch.values()])
        self._begin(Phase.OPTIMIZER)
        with torch.no_grad():
            updated = self._update(parameters, gradients, state)
        return loss.detach(), gradients, *updated

    def _begin(self, phase: Phase) -> None:
        mode: Any = get_proxy_mode()
        self.phase_starts[phase] = {node.name for node in mode.tracer.graph.nodes}

    def _update(
        self,
        parameters: Sequence[Tensor],
        gradients: Sequence[Tensor | None],
        state: Sequence[tuple[Tensor, ...]],
    ) -> tuple[list[Tensor], list[tuple[Tensor, ...]]]:
        used = [gradient for gradient in gradients if gradient is not None]
        factor = clip_factor(used, self.clip_norm) if self.clip_norm else None
        new_parameters, new_state = list(parameters), list(state)
        for index, gradient in enumerate(gradients):
            if gradient is not None:
                scaled = gradient if factor is None else gradient * factor
                new_parameters[index], new_state[index] = self.optimizer.update(
                    parameters[index], scaled, state[index]
                )
        return new_parameters, new_state


def _unshared(gradients: Sequence[Tensor | None], given: Sequence[Tensor]) -> list[Tensor | None]:
    """Copy each gradient that does not have a storage to itself.

    An all-reduce changes a gradient in place, within a chain of which it must be one link: a
    gradient that is a part of a larger storage, that two parameters share, or that lies in what
    the step was given would bring along bytes that are not its own. The copy belongs to the
    backward pass and counts as ready when it is made.
    """
    owners = Counter(
        _storage_key(tensor.untyped_storage())
        for tensor in (*gradients, *given)
        if tensor is not None
    )

    def unshare(gradient: Tensor | None) -> Tensor | None:
        if gradient is None:
            return None
        storage = gradient.untyped_storage()
        alone = owners[_storage_key(storage)] == 1 and storage.nbytes() == gradient.nbytes
        return gradient if alone else gradient.clone()

    return [unshare(gradient) for gradient in gradients]


class _Storages:
    """Numbers storages in the order in which they are first seen."""

    def __init__(self) -> None:
        self.number: dict[Any, int] = {}
        self.size: list[int] = []
        self.name: list[str] = []

    def of(self, values: Any, name: str = "") -> tuple[int, ...]:
        """Return the storages of all tensors in nested values; new ones get the name."""
        tensors = list(_tensors(values))
        suffixes = [""] if len(tensors) == 1 else [f".{index}" for index in range(len(tensors))]
        return tuple(
            self._of(tensor, name + suffix)
            for tensor, suffix in zip(tensors, suffixes, strict=True)
        )

    def _of(self, tensor: Tensor, name: str) -> int:
        storage = tensor.untyped_storage()
        key = _storage_key(storage)
        if key not in self.number:
            self.number[key] = len(self.size)
            self.size.append(storage.nbytes())
            self.name.append(name)
        return self.number[key]


def _read_graph(
    graph: torch.fx.Graph,
    batch: Sequence[str],
    gradient_names: Sequence[str],
    phase_starts: dict[Phase, set[str]],
) -> Trace:
    storages = _Storages()
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    given = [storages.of(node.meta["val"], node.name)[0] for node in placeholders]
    ops = [
        _read_op(node, storages, phase_starts) for node in graph.nodes if node.op == "call_function"
    ]
    (returned,) = (node.args[0] for node in graph.nodes if node.op == "output")
    loss = storages.of(returned[0].meta["val"])
    gradients = [
        (storages.of(node.meta["val"])[0], name)
        for node, name in zip(returned[1:], gradient_names, strict=False)
        if node is not None
    ]
    # Parameters and state are returned in the order in which they were given, at the end.
    new_values = [storages.of(node.meta["val"])[0] for node in returned[1 + len(gradient_names) :]]
    replaced = given[len(given) - len(new_values) :]
    for storage, name in (*zip(given, batch, strict=False), *gradients):
        storages.name[storage] = name
    return Trace(
        ops=tuple(ops),
        size=tuple(storages.size),
        name=tuple(storages.name),
        batch=tuple(given[: len(batch)]),
        persistent=frozenset(given[len(batch) :]),
        updates={new: old for new, old in zip(new_values, replaced, strict=True) if new != old},
        gradients=tuple(storage for storage, _ in gradients),
        returned=loss,
    )


def _read_op(node: Node, storages: _Storages, phase_starts: dict[Phase, set[str]]) -> TracedOp:
    target: Any = node.target
    schema = getattr(target, "_schema", None)
    outputs = storages.of(node.meta["val"], node.name)
    inputs = storages.of([argument.meta["val"] for argument in node.all_input_nodes])
    name = target.__name__ if schema is None else schema.name.split("::")[-1]
    mutated = () if schema is None else storages.of(list(_written_arguments(node, schema)))
    phase = Phase.FORWARD
    for later in (Phase.BACKWARD, Phase.OPTIMIZER):
        if node.name not in phase_starts[later]:
            phase = later
    return TracedOp(node.name, name, phase, inputs, mutated, outputs)


def _written_arguments(node: Node, schema: Any) -> Iterator[Any]:
    for index, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = node.kwargs.get(argument.name)
            if index < len(node.args):
                value = node.args[index]
            nodes = [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, Node)]
            yield [leaf.meta["val"] for leaf in nodes]


def _tensors(values: Any) -> Iterable[Tensor]:
    return (leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, Tensor))
