"""Trace a forward pass alone, as inference runs it."""

from __future__ import annotations

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from instances.extract.tracing.building import Build
from instances.extract.tracing.gpu_kernels import gpu_kernels
from instances.extract.tracing.storages import Trace
from instances.extract.tracing.traced_graph import read_graph


def trace_forward_pass(build: Build) -> Trace:
    """Trace the forward pass of a model without computing anything.

    Nothing is kept for a backward pass: a result dies with its last reader, and what the model
    returns lives to the end. The model is built where tensors are fake, in evaluation mode.
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
    storages = graph.storages
    for storage, name in zip(graph.given, batch, strict=False):
        storages.name[storage] = name
    return Trace(
        ops=graph.ops,
        size=tuple(storages.size),
        name=tuple(storages.name),
        batch=graph.given[: len(batch)],
        persistent=graph.constants | set(graph.given[len(batch) :]),
        updates={},
        gradients=(),
        returned=tuple(graph.storage_of(node) for node in graph.returned if node is not None),
    )
