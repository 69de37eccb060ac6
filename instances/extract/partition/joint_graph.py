"""Forward and backward pass of a model as one graph, which PyTorch's partitioner cuts in two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch.fx import GraphModule
from torch.utils.checkpoint import CheckpointPolicy

from instances.extract.kernels.storages import StepPhase
from instances.extract.kernels.streams import COMMUNICATION_OPS
from instances.extract.models import Model
from instances.extract.models.building import build_module
from instances.extract.partition.functional_graph import make_functional
from instances.extract.record.graph.optimizers import Sgd
from instances.extract.record.graph.traced_graph import TracedGraph, op_name, read_graph, value_of
from instances.extract.record.graph.training_step import StepGraph, record_training_step
from instances.extract.step_settings import StepSettings
from planners.errors import InstanceError

TANGENT = "tangents_1"


@dataclass(frozen=True)
class JointGraph:
    """A graph from parameters, buffers, batch and the gradient of the loss to loss and gradients.

    Nodes are called as in the instance of the same model and settings.
    """

    module: GraphModule
    # Positions of the arguments that live from step to step.
    persistent_arguments: tuple[int, ...]
    # For each node of the forward pass, the tensors of the instance that it makes, if any.
    makes: Mapping[str, tuple[str, ...]]
    # For each node of one tensor, the tensor of the instance in whose storage it lies.
    lies_in: Mapping[str, str]


def joint_graph(model: Model, settings: StepSettings) -> JointGraph:
    """Trace a model; the optimizer of the settings makes no difference, and clipping neither.

    ``InstanceError`` where the step already recomputes, or its in-place operators cannot be
    replaced.
    """
    if not settings.training or settings.checkpointing:
        found = "recomputation" if settings.training else settings.mode
        raise InstanceError(f"a training step that recomputes nothing is needed, found {found}")
    recorded = record_training_step(lambda: build_module(model, settings), Sgd(), 0)
    module = recorded.module
    traced = read_graph(module.graph, recorded.phase_starts)
    names = list(traced.storages.name)
    for storage, name in zip(traced.given, recorded.batch, strict=False):
        names[storage] = name
    lies_in = {
        node.name: names[traced.storage_of(node)]
        for node in module.graph.nodes
        if node.op != "get_attr" and isinstance(node.meta.get("val"), torch.Tensor)
    }
    makes = _made_by_forward(traced, names)
    _end_at_gradients(module, traced, recorded)
    for node in module.graph.nodes:
        if node.op == "get_attr":
            node.meta["val"] = value_of(node)
        elif node.op == "call_function" and op_name(node.target) in COMMUNICATION_OPS:
            node.meta["recompute"] = CheckpointPolicy.MUST_SAVE
    # A second run of these nodes would read the value that the first run changed.
    for node in make_functional(module.graph):
        node.meta["recompute"] = CheckpointPolicy.MUST_SAVE
    module.recompile()
    count = sum(node.op == "placeholder" for node in module.graph.nodes)
    return JointGraph(module, tuple(range(len(recorded.batch), count - 1)), makes, lies_in)


def _made_by_forward(traced: TracedGraph, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the tensors that each operator of the forward pass makes; a view makes none."""
    known = {*traced.given, *traced.constants}
    made: dict[str, tuple[str, ...]] = {}
    for op in traced.ops:
        new = dict.fromkeys(storage for storage in op.outputs if storage not in known)
        known.update(new)
        if new and op.phase is StepPhase.FORWARD:
            made[op.name] = tuple(names[storage] for storage in new)
    return made


def _end_at_gradients(module: GraphModule, traced: TracedGraph, recorded: StepGraph) -> None:
    """Leave out the optimizer, and let the gradient of the loss be an argument."""
    graph = module.graph
    before = recorded.phase_starts[StepPhase.BACKWARD]
    arguments = graph.find_nodes(op="placeholder")
    seed = next(node for node in graph.nodes if node.name not in before)
    if seed.target is not torch.ops.aten.ones_like.default:
        raise InstanceError(
            f"operator {seed.name}: a backward pass that begins with a gradient of ones is needed"
        )
    with graph.inserting_after(arguments[-1]):
        tangent = graph.placeholder(TANGENT)
    tangent.meta["val"] = seed.meta["val"]
    seed.replace_all_uses_with(tangent)
    graph.erase_node(seed)
    (output,) = graph.find_nodes(op="output")
    output.args = (traced.returned[: 1 + len(recorded.trained)],)
    graph.eliminate_dead_code()
    # The optimizer's state comes last.
    for argument in arguments[recorded.argument_count :]:
        graph.erase_node(argument)
