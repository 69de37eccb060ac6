"""tinygrad's memory planner, called on a schedule whose steps read the tensors of a problem."""

from __future__ import annotations

from typing import Any

from evaluation.peers.plain_lifetimes import PlainLifetimes
from planners.errors import MissingDependencyError
from planners.model.plan import Plan

# Bytes to which it rounds.
BLOCK = 256


def plan_by_tinygrad(lifetimes: PlainLifetimes) -> Plan:
    """Return the plan of ``memory_plan_rewrite``."""
    try:
        from tinygrad.dtype import dtypes
        from tinygrad.schedule.memory import memory_plan_rewrite
        from tinygrad.uop.ops import Ops, UOp
    except ImportError as error:
        raise MissingDependencyError(f"this planner is tinygrad's ({error})", "compilers") from None
    buffers = [UOp.new_buffer("CPU", size * BLOCK, dtypes.uint8) for size in lifetimes.size]
    # A tensor lives from the first step that names it to the last.
    named: dict[int, list[Any]] = {}
    for buffer, first, last in zip(buffers, lifetimes.first, lifetimes.last, strict=True):
        for step in {first, last}:
            named.setdefault(step, []).append(buffer)
    calls = [UOp(Ops.CALL, dtypes.void, (UOp(Ops.NOOP), *named[step])) for step in sorted(named)]
    planned = memory_plan_rewrite(UOp(Ops.LINEAR, dtypes.void, tuple(calls)))
    offsets: dict[Any, int] = {}
    for call, replaced in zip(calls, planned.src, strict=True):
        for buffer, view in zip(call.src[1:], replaced.src[1:], strict=True):
            offsets[buffer] = _offset_of(view, Ops)
    return lifetimes.plan([offsets[buffer] for buffer in buffers], BLOCK)


def _offset_of(view: Any, ops: Any) -> int:
    """Return where a view of the arena begins: its shrinking to a part, before its type."""
    [shrink] = [each for each in view.toposort() if each.op is ops.SHRINK]
    _, begin, _ = shrink.src
    return int(begin.arg)
