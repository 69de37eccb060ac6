"""Vela's allocators for the Ethos-U, greedy and hill climbing, called on live ranges."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from evaluation.peers.plain_lifetimes import PlainLifetimes
from planners.errors import MissingDependencyError
from planners.model.plan import Plan

# More than any problem has: hill climbing ends when it finds nothing better, not when it fits.
ANY_SIZE = 1 << 62


def plan_by_vela_greedy(lifetimes: PlainLifetimes) -> Plan:
    """Return the plan of the greedy allocator."""
    ranges = _live_ranges(lifetimes)
    from ethosu.vela.greedy_allocation import allocate_live_ranges

    allocate_live_ranges(SimpleNamespace(lrs=ranges), alignment=1)
    return lifetimes.plan([each.tensors[0].address for each in ranges])


def plan_by_vela_hill_climbing(lifetimes: PlainLifetimes) -> Plan:
    """Return the plan of hill climbing, which has a seed of its own."""
    ranges = _live_ranges(lifetimes)
    from ethosu.vela.hillclimb_allocation import allocate_live_ranges

    return lifetimes.plan(allocate_live_ranges(ranges, None, ANY_SIZE))


def _live_ranges(lifetimes: PlainLifetimes) -> list[Any]:
    try:
        from ethosu.vela.live_range import LiveRange
    except ImportError as error:
        raise MissingDependencyError(f"this planner is Vela's ({error})", "compilers") from None
    ranges = []
    for number, (size, first, last) in enumerate(
        zip(lifetimes.size, lifetimes.first, lifetimes.last, strict=True)
    ):
        each = LiveRange(None, 1)
        each.size, each.start_time, each.end_time = size, first, last
        # Ties go to the name; the tensor takes the address.
        each.name, each.tensors = f"{number:09}", [SimpleNamespace(address=0)]
        ranges.append(each)
    return ranges
