"""Asks PyTorch's partitioner which tensors it keeps for the backward pass."""

from __future__ import annotations

from dataclasses import dataclass

from torch._functorch import config
from torch._functorch.partitioners import min_cut_rematerialization_partition

from instances.extract.partition.joint_graph import JointGraph


@dataclass(frozen=True)
class Partition:
    """Tensors of the forward pass, by the names that they have in the instance."""

    # Those that the backward pass reads as they are.
    saved: frozenset[str]
    # Those that are made in the backward pass, again or for the first time.
    repeated: frozenset[str]


def partition(joint: JointGraph, memory_budget: float, solver: str) -> Partition:
    """Let PyTorch cut a joint graph in two, by its solver ``dp``, ``greedy`` or ``ilp``.

    With a budget of 0 nothing but arguments is kept, with 1 what a step without a budget keeps. A
    value between is a part of the bytes that lie between the two.
    """
    with config.patch(
        activation_memory_budget=memory_budget,
        activation_memory_budget_solver=solver,
        activation_memory_budget_runtime_estimator="flops",
        # Equal calls stay two, as in the instance.
        cse=False,
    ):
        forward, backward = min_cut_rematerialization_partition(
            joint.module,
            None,
            num_fwd_outputs=1,
            static_lifetime_input_indices=list(joint.persistent_arguments),
        )
    (output,) = forward.graph.find_nodes(op="output")
    # The first result is the loss.
    saved = {joint.lies_in[node.name] for node in output.args[0][1:] if node.name in joint.lies_in}
    # The backward pass has an argument for each saved tensor, of the same name.
    repeated = {
        tensor
        for node in backward.graph.nodes
        if node.op == "call_function"
        for tensor in joint.makes.get(node.name, ())
    }
    return Partition(frozenset(saved), frozenset(repeated))
