"""onnxsim's plan of activation memory, called on a model whose nodes hold the tensors."""

from __future__ import annotations

from evaluation.peers.plain_lifetimes import PlainLifetimes
from planners.errors import MissingDependencyError
from planners.model.plan import Plan


def plan_by_onnxsim(lifetimes: PlainLifetimes) -> Plan:
    """Return the plan of ``plan_activation_memory``."""
    try:
        from onnx import TensorProto, helper
        from onnxsim.memory_planning import plan_activation_memory
    except ImportError as error:
        raise MissingDependencyError(f"this planner is onnxsim's ({error})", "compilers") from None
    # Ties go to the name. A node a step: it makes what begins there and reads what ends there.
    names = [f"{number:09}" for number in range(len(lifetimes.size))]
    made: dict[int, list[str]] = {}
    read: dict[int, list[str]] = {}
    for name, first, last in zip(names, lifetimes.first, lifetimes.last, strict=True):
        made.setdefault(first, []).append(name)
        read.setdefault(last, []).append(name)
    nodes = [
        # Of no operator that it knows, for it would compute some in place.
        helper.make_node("Step", read.get(step, []), made.get(step, []), domain="gapless")
        for step in sorted(made.keys() | read.keys())
    ]
    values = [
        helper.make_tensor_value_info(name, TensorProto.UINT8, [size])
        for name, size in zip(names, lifetimes.size, strict=True)
    ]
    graph = helper.make_graph(nodes, "problem", [], [], value_info=values)
    found = plan_activation_memory(helper.make_model(graph), run_shape_inference=False)
    return lifetimes.plan([found.tensor_offsets[name][0] for name in names])
