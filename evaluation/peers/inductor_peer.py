"""PyTorch Inductor's planner of memory pools, called on groups of buffers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from evaluation.peers.plain_lifetimes import PlainLifetimes
from planners.errors import InvalidPlanError, MissingDependencyError
from planners.model.plan import Plan

# Bytes to which it rounds.
BLOCK = 64


def plan_by_inductor(lifetimes: PlainLifetimes) -> Plan:
    """Return the plan of ``MemoryPlanner.allocate_groups``, all of it in one pool."""
    try:
        import torch
        from torch._inductor.codegen import memory_planning as inductor
        from torch._inductor.virtualized import V
    except ImportError as error:
        raise MissingDependencyError(f"this planner is PyTorch's ({error})", "torch") from None
    groups: list[Any] = []
    for number, (size, first, last) in enumerate(
        zip(lifetimes.size, lifetimes.first, lifetimes.last, strict=True)
    ):
        group = inductor.BufferGroup(_buffer(f"buf{number}", size * BLOCK, torch))
        # Its ranges end before their last step.
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
    return lifetimes.plan([int(group.allocation.offset) for group in groups], BLOCK)


def _buffer(name: str, size: int, torch: Any) -> Any:
    """Return what the planner asks of a buffer of so many bytes."""
    layout = SimpleNamespace(size=[size], storage_size=lambda: size)
    return SimpleNamespace(
        get_name=lambda: name,
        get_layout=lambda: layout,
        get_dtype=lambda: torch.uint8,
        get_device=lambda: torch.device("cpu"),
    )
