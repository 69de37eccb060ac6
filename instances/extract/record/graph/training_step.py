"""Trace a whole training step on fake tensors: forward, loss, backward, optimizer.

Note: how the step is traced
----------------------------
Rationale. The graph must hold the operators that a GPU runs in one step, with real sizes, on any
machine and without memory for it.

Approach. Everything is built and run under one ``FakeTensorMode``; ``make_fx`` records the
operators below autograd, so the backward pass and the optimizer are in the graph like any other
operator. In-place operators stay in place: functionalising would turn each into a tensor that no
device allocates (and fails within ``autograd.grad``). The optimizer alone is functional
(:mod:`instances.extract.record.graph.optimizers`): it returns new values, and the trace says which
persistent storage each one becomes. Parameters that ask for no gradient, such as those of a
teacher, are persistent like buffers. The backward pass runs while the module's parameters are
replaced by the traced ones, so that a recomputed layer reads these.

Limits. Workspaces that a kernel allocates for itself (cuBLAS, sorting in the embedding's backward)
are invisible here and left out, and so is the host: data loading, the learning-rate schedule.
Logits die with the log-softmax that reads them, as in a loop that keeps nothing but the loss.
Gradients of one tensor are added into a new one, where eager autograd may reuse a dying summand.
On BERT-base none of this is alive at the peak: PyTorch on an H200 reports the same peak to 200
bytes (``tests/instances/extract/test_committed_bert.py``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import get_proxy_mode, make_fx
from torch.utils import _pytree as pytree

from instances.extract.kernels.storages import StepPhase, Trace
from instances.extract.models.building import Build
from instances.extract.record.gpu.gpu_kernels import gpu_kernels
from instances.extract.record.graph.optimizers import Optimizer, clip_factor
from instances.extract.record.graph.traced_graph import TracedGraph, read_graph, storage_key
from planners.errors import InstanceError


@dataclass(frozen=True)
class StepGraph:
    """The operators of a training step as a graph, and what it is given."""

    # Its inputs: the batch, buffers and untrained parameters, trained ones, the optimizer's state.
    module: GraphModule
    # For each phase, the nodes that existed when it began.
    phase_starts: Mapping[StepPhase, Set[str]]
    # Names of the tensors of the batch, and of the trained parameters.
    batch: tuple[str, ...]
    trained: tuple[str, ...]
    # The trained parameters that no other rank has.
    local: frozenset[str]
    # How many tensors are given besides the optimizer's state.
    argument_count: int


def record_training_step(build: Build, optimizer: Optimizer, clip_norm: float) -> StepGraph:
    """Record one training step without computing anything; the model is built of fake tensors.

    A `clip_norm` of 0 leaves clipping out.
    """
    with FakeTensorMode(), gpu_kernels():
        module, given = build()
        switches = {name: one for name, one in given.items() if isinstance(one, bool)}
        batch = {
            name: _own_tensor(name, one) for name, one in given.items() if name not in switches
        }
        step = _Step(module, switches, optimizer, clip_norm)
        named = dict(module.named_parameters())
        trained = {name: tensor for name, tensor in named.items() if tensor.requires_grad}
        kept = {**dict(module.named_buffers()), **_without(named, trained)}
        state = [optimizer.initial_state(parameter.detach()) for parameter in trained.values()]
        recorded = make_fx(step, tracing_mode="fake")(batch, kept, trained, state)
    local = frozenset(
        name for name, parameter in trained.items() if not getattr(parameter, "allreduce", True)
    )
    count = len(batch) + len(kept) + len(trained)
    return StepGraph(recorded, step.phase_starts, tuple(batch), tuple(trained), local, count)


def _own_tensor(name: str, given: Any) -> Tensor:
    """Return a tensor of its own storage, which an argument of a graph is."""
    if not isinstance(given, Tensor):
        raise InstanceError(
            f"argument {name}: a tensor is needed for a graph, found a {type(given).__name__}; "
            f"record an eager trace of this model"
        )
    return given.clone()


def trace_training_step(build: Build, optimizer: Optimizer, clip_norm: float) -> Trace:
    """Record one training step, as :func:`record_training_step`, and read its trace."""
    recorded = record_training_step(build, optimizer, clip_norm)
    graph = read_graph(recorded.module.graph, recorded.phase_starts)
    return _read_step(graph, recorded.batch, recorded.trained, recorded.local)


def _without(named: Mapping[str, Tensor], others: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in named.items() if name not in others}


class _LossAndGradients(torch.nn.Module):
    """Forward and backward as one call, within which the parameters stay replaced."""

    def __init__(
        self,
        module: torch.nn.Module,
        switches: Mapping[str, bool],
        begin_backward: Callable[[], None],
    ) -> None:
        super().__init__()
        self.module = module
        self.switches = switches
        self.begin_backward = begin_backward

    def forward(
        self, batch: dict[str, Tensor], parameters: Sequence[Tensor]
    ) -> tuple[Tensor, tuple[Tensor | None, ...]]:
        loss = self.module(**batch, **self.switches).loss
        self.begin_backward()
        return loss, torch.autograd.grad(loss, parameters, allow_unused=True)


class _Step:
    """The traced function, and where in the graph its phases begin."""

    def __init__(
        self,
        module: torch.nn.Module,
        switches: Mapping[str, bool],
        optimizer: Optimizer,
        clip_norm: float,
    ) -> None:
        self.module = _LossAndGradients(module, switches, lambda: self._begin(StepPhase.BACKWARD))
        self.optimizer = optimizer
        self.clip_norm = clip_norm
        self.phase_starts: dict[StepPhase, set[str]] = {}

    def __call__(
        self,
        batch: dict[str, Tensor],
        kept: dict[str, Tensor],
        trained: dict[str, Tensor],
        state: list[tuple[Tensor, ...]],
    ) -> tuple[Any, ...]:
        parameters = list(trained.values())
        named = {f"module.{name}": tensor for name, tensor in {**trained, **kept}.items()}
        loss, found = functional_call(self.module, named, (batch, parameters))
        gradients = _unshared(found, [*parameters, *kept.values(), *batch.values()])
        self._begin(StepPhase.OPTIMIZER)
        with torch.no_grad():
            new_parameters, new_state = self._update(parameters, gradients, state)
        flat_state = [tensor for tensors in new_state for tensor in tensors]
        return loss.detach(), *gradients, *new_parameters, *flat_state

    def _begin(self, phase: StepPhase) -> None:
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

    An all-reduce changes a gradient in place, and the gradient must be one link of a chain. A
    gradient in a larger storage, in one that two parameters share, or in an input of the step would
    bring bytes of others into the chain. The copy belongs to the backward pass, and is ready when
    it is made.
    """
    owners = Counter(
        storage_key(tensor.untyped_storage())
        for tensor in (*gradients, *given)
        if tensor is not None
    )

    def unshare(gradient: Tensor | None) -> Tensor | None:
        if gradient is None:
            return None
        storage = gradient.untyped_storage()
        alone = owners[storage_key(storage)] == 1 and storage.nbytes() == gradient.nbytes
        return gradient if alone else gradient.clone()

    return [unshare(gradient) for gradient in gradients]


def _read_step(
    graph: TracedGraph, batch: Sequence[str], trained: Sequence[str], local: Collection[str]
) -> Trace:
    found = {
        name: graph.storage_of(node)
        for node, name in zip(graph.returned[1:], trained, strict=False)
        if node is not None
    }
    # Parameters and state are returned in the order in which they were given, at the end.
    loss, *new = (
        graph.storage_of(node)
        for node in (graph.returned[0], *graph.returned[1 + len(trained) :])
        if node is not None
    )
    given, storages = graph.given, graph.storages
    replaced = given[len(given) - len(new) :]
    parameters = dict(zip(trained, replaced, strict=False))
    for name, gradient in found.items():
        storages.name[parameters[name]] = name
        storages.name[gradient] = f"grad {name}"
    common = [name for name in found if name not in local]
    return _trace_of(
        graph,
        batch,
        updates={new: old for new, old in zip(new, replaced, strict=True) if new != old},
        gradients=tuple(found[name] for name in common),
        returned=(loss,),
        parameters=tuple(parameters[name] for name in common),
    )


def _trace_of(graph: TracedGraph, batch: Collection[str], **facts: Any) -> Trace:
    """Return the trace of a graph whose first arguments are the batch; the others stay."""
    for storage, name in zip(graph.given, batch, strict=False):
        graph.storages.name[storage] = name
    return Trace(
        ops=graph.ops,
        size=tuple(graph.storages.size),
        name=tuple(graph.storages.name),
        batch=graph.given[: len(batch)],
        persistent=graph.constants | set(graph.given[len(batch) :]),
        **facts,
    )


def trace_forward_pass(build: Build) -> Trace:
    """Trace the forward pass of a model without computing anything.

    Nothing is kept for a backward pass: a result dies with its last reader, and the model's outputs
    live to the end. The model is built with fake tensors, in evaluation mode.
    """
    with FakeTensorMode(), gpu_kernels():
        module, batch = build()
        kept = {**dict(module.named_parameters()), **dict(module.named_buffers())}

        def run(batch: dict[str, Tensor], kept: dict[str, Tensor]) -> list[Tensor]:
            with torch.no_grad():
                output = functional_call(module, kept, (), batch)
            return [leaf for leaf in pytree.tree_leaves(output) if isinstance(leaf, Tensor)]

        traced = make_fx(run, tracing_mode="fake")(batch, kept)
    graph = read_graph(traced.graph, {})
    returned = (graph.storage_of(node) for node in graph.returned if node is not None)
    return _trace_of(graph, batch, updates={}, gradients=(), returned=tuple(returned))
