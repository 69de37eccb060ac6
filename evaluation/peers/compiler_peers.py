"""Planners of packages that compile models, each called in its own package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from evaluation.peers.plain_lifetimes import PlainLifetimes
from planners.errors import InvalidPlanError, MissingDependencyError
from planners.model.plan import Plan

# Bytes to which the packages round.
EXECUTORCH_BLOCK = 16
INDUCTOR_BLOCK = 64
TINYGRAD_BLOCK = 256
# More than any problem needs: Vela's hill climbing stops when nothing improves, not at this size.
ANY_SIZE = 1 << 62


@contextmanager
def _imported(owner: str, extra: str) -> Iterator[None]:
    """Name the extra of Gapless that has a package which cannot be imported."""
    try:
        yield
    except ImportError as error:
        raise MissingDependencyError(f"this planner is {owner} ({error})", extra) from None


def plan_by_executorch(lifetimes: PlainLifetimes) -> Plan:
    """Return the plan of ``greedy``, given specs in the order of the tensors."""
    with _imported("ExecuTorch's", "executorch"):
        import torch
        from executorch.exir.memory_planning import greedy
        from executorch.exir.tensor import TensorSpec
    specs = []
    for size, first, last in lifetimes.rows:
        spec = TensorSpec(torch.uint8, torch.Size([size * EXECUTORCH_BLOCK]))
        spec.lifetime = [first, last]
        specs.append(spec)
    found = greedy(EXECUTORCH_BLOCK, specs, SimpleNamespace(input_mem_buffer_sizes=None), None)
    offsets = [found.spec_dict[spec].mem_offset for spec in specs]
    return lifetimes.plan(offsets, EXECUTORCH_BLOCK)


def plan_by_inductor(lifetimes: PlainLifetimes) -> Plan:
    """Return the plan of ``MemoryPlanner.allocate_groups``, all of it in one pool."""
    with _imported("PyTorch's", "torch"):
        import torch
        from torch._inductor.codegen import memory_planning as inductor
        from torch._inductor.virtualized import V
    groups: list[Any] = []
    for number, (size, first, last) in enumerate(lifetimes.rows):
        group = inductor.BufferGroup(_buffer(f"buf{number}", size * INDUCTOR_BLOCK, torch))
        # The ranges of Inductor end before their last step.
        group.live_range = inductor.LiveRange(first, last + 1)
        groups.append(group)
    planner: Any = inductor.MemoryPlanner(None, buffer_groups=groups)
    sizes = SimpleNamespace(optimization_hint=lambda size, fallback: int(size))  # noqa: ARG005
    handler: Any = SimpleNamespace(sizevars=sizes)
    with V.set_graph_handler(handler):
        planner.allocate_groups()
    pools = {group.allocation.pool.name for group in groups}
    if len(pools) > 1:
        raise InvalidPlanError(f"one pool is needed to compare, found {len(pools)}")
    offsets = [int(group.allocation.offset) for group in groups]
    return lifetimes.plan(offsets, INDUCTOR_BLOCK)


def _buffer(name: str, size: int, torch: Any) -> Any:
    """Return an object with the methods that Inductor's planner calls on a buffer."""
    layout = SimpleNamespace(size=[size], storage_size=lambda: size)
    return SimpleNamespace(
        get_name=lambda: name,
        get_layout=lambda: layout,
        get_dtype=lambda: torch.uint8,
        get_device=lambda: torch.device("cpu"),
    )


def plan_by_onnxsim(lifetimes: PlainLifetimes) -> Plan:
    """Return the plan of ``plan_activation_memory``."""
    with _imported("onnxsim's", "compilers"):
        from onnx import TensorProto, helper
        from onnxsim.memory_planning import plan_activation_memory
    # onnxsim breaks ties by name. Each step is a node that makes the tensors which begin there and
    # reads the tensors which end there.
    names = [f"{number:09}" for number in range(len(lifetimes.size))]
    made: dict[int, list[str]] = {}
    read: dict[int, list[str]] = {}
    for name, (_, first, last) in zip(names, lifetimes.rows, strict=True):
        made.setdefault(first, []).append(name)
        read.setdefault(last, []).append(name)
    nodes = [
        # The operator is unknown to onnxsim, which would compute some known ones in place.
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


def plan_by_tinygrad(lifetimes: PlainLifetimes) -> Plan:
    """Return the plan of ``memory_plan_rewrite``."""
    with _imported("tinygrad's", "compilers"):
        from tinygrad.dtype import dtypes
        from tinygrad.schedule.memory import memory_plan_rewrite
        from tinygrad.uop.ops import Ops, UOp
    buffers = [
        UOp.new_buffer("CPU", size * TINYGRAD_BLOCK, dtypes.uint8) for size in lifetimes.size
    ]
    # tinygrad keeps a tensor from the first step that names it to the last one.
    named: dict[int, list[Any]] = {}
    for buffer, (_, first, last) in zip(buffers, lifetimes.rows, strict=True):
        for step in {first, last}:
            named.setdefault(step, []).append(buffer)
    calls = [UOp(Ops.CALL, dtypes.void, (UOp(Ops.NOOP), *named[step])) for step in sorted(named)]
    planned = memory_plan_rewrite(UOp(Ops.LINEAR, dtypes.void, tuple(calls)))
    offsets: dict[Any, int] = {}
    for call, replaced in zip(calls, planned.src, strict=True):
        for buffer, view in zip(call.src[1:], replaced.src[1:], strict=True):
            # The view shrinks the arena to the bytes of the tensor before it sets their type.
            [shrink] = [each for each in view.toposort() if each.op is Ops.SHRINK]
            offsets[buffer] = int(shrink.src[1].arg)
    return lifetimes.plan([offsets[buffer] for buffer in buffers], TINYGRAD_BLOCK)


def plan_by_vela_greedy(lifetimes: PlainLifetimes) -> Plan:
    """Return the plan of Vela's greedy allocator for the Ethos-U."""
    ranges = _live_ranges(lifetimes)
    from ethosu.vela.greedy_allocation import allocate_live_ranges

    allocate_live_ranges(SimpleNamespace(lrs=ranges), alignment=1)
    return lifetimes.plan([each.tensors[0].address for each in ranges])


def plan_by_vela_hill_climbing(lifetimes: PlainLifetimes) -> Plan:
    """Return the plan of Vela's hill climbing, which has a seed of its own."""
    ranges = _live_ranges(lifetimes)
    from ethosu.vela.hillclimb_allocation import allocate_live_ranges

    return lifetimes.plan(allocate_live_ranges(ranges, None, ANY_SIZE))


def _live_ranges(lifetimes: PlainLifetimes) -> list[Any]:
    with _imported("Vela's", "compilers"):
        from ethosu.vela.live_range import LiveRange
    ranges = []
    for number, (size, first, last) in enumerate(lifetimes.rows):
        each = LiveRange(None, 1)
        each.size, each.start_time, each.end_time = size, first, last
        # Vela breaks ties by name; the tensor takes the address.
        each.name, each.tensors = f"{number:09}", [SimpleNamespace(address=0)]
        ranges.append(each)
    return ranges
