"""A structured problem of dsa-solver's schema: three buffers of one memory, and two prices."""

from __future__ import annotations

from typing import Any

NOTHING: dict[str, list[Any]] = {
    "colocations": [], "separations": [], "temporal_exclusions": [], "pinned_allocations": [],
}  # fmt: skip


def buffer(number: int, size: int, *lives: tuple[int, int]) -> dict[str, Any]:
    intervals = [{"lower": lower, "upper": upper} for lower, upper in lives]
    return {
        "id": number, "name": f"b{number}", "size": size, "alignment": 8, "allowed_pools": [4],
        "live_intervals": intervals,
    }  # fmt: skip


STRUCTURED: dict[str, Any] = {
    "schema_version": 1, "profile": "dsa_rp_v1", "instance": "example",
    "problem": {
        "pools": [
            {"id": 4, "name": "vec", "capacity": 96, "reserved_ranges": []},
            {"id": 5, "name": "unused", "capacity": None, "reserved_ranges": []},
        ],
        "buffers": [buffer(7, 64, (0, 2)), buffer(9, 32, (2, 4), (6, 8)), buffer(8, 16, (3, 5))],
        "constraints": NOTHING,
        "cost_model": {"reuse_penalties": [
            {"first": 7, "second": 9, "cost": 3, "reason": "generic"},
            {"first": 8, "second": 7, "cost": 0, "reason": "generic"},
        ]},
        "objective": {"aggregation": "lexicographic", "terms": ["reuse_cost"]},
    },
}  # fmt: skip
