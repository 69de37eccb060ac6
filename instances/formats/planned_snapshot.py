"""A plan as a memory snapshot, for the memory viewer of PyTorch (pytorch.org/memory_viz)."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from instances.formats.plan_steps import name_of_tensor, occupied_steps, stream_of_tensors
from planners.files.output_file import write_output
from planners.model.plan import Plan
from planners.model.problem import Problem

TARGET = "a memory snapshot"
# Where the one segment lies. The viewer is JavaScript, whose whole numbers are exact to 2**53.
SEGMENT_ADDRESS = 0x7F0000000000
# Says in place of an allocator's settings that nothing was allocated; the viewer shows it.
SETTINGS = {"planned_by": "gapless"}
# The viewer reads protocols 2 to 4.
PICKLE_PROTOCOL = 4


def write_planned_snapshot(problem: Problem, plan: Plan, path: Path) -> None:
    """Write the history that an allocator which obeys a plan would record.

    One segment of the plan's peak is allocated; then every tensor is allocated at its offset when
    its lifetime starts and freed when it ends, frees of a step first. A step takes a microsecond.
    In place of the stack of calls a tensor shows its name, and the problem's name and its own
    number as file and line. At the end all is freed. A tensor with a gap is freed for it; an empty
    tensor, for which no allocator is asked, is left out.
    """
    events = _events(problem, plan)
    snapshot = {
        "segments": [_segment(plan.peak)] if plan.peak else [],
        "device_traces": [events],
        "allocator_settings": SETTINGS,
    }
    write_output(path, pickle.dumps(snapshot, protocol=PICKLE_PROTOCOL))


def is_planned_snapshot(snapshot: Mapping[str, Any]) -> bool:
    """Return whether a snapshot shows a plan, not what an allocator did."""
    return bool(snapshot.get("allocator_settings") == SETTINGS)


def _segment(peak: int) -> dict[str, Any]:
    block = {
        "address": SEGMENT_ADDRESS,
        "size": peak,
        "requested_size": 0,
        "state": "inactive",
        "frames": [],
    }
    return {
        "device": 0,
        "address": SEGMENT_ADDRESS,
        "total_size": peak,
        "allocated_size": 0,
        "active_size": 0,
        "requested_size": 0,
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": [block],
    }


def _events(problem: Problem, plan: Plan) -> list[dict[str, Any]]:
    rows = occupied_steps(problem, plan, TARGET).tolist()
    offsets, sizes = plan.offsets.tolist(), problem.size.tolist()
    streams = stream_of_tensors(problem)

    def event(action: str, tensor: int, step: int) -> dict[str, Any]:
        return {
            "action": action,
            "addr": SEGMENT_ADDRESS + offsets[tensor],
            "size": sizes[tensor],
            "stream": streams[tensor],
            "time_us": step,
            "frames": [
                {
                    "name": name_of_tensor(problem, tensor),
                    "filename": problem.name,
                    "line": tensor,
                }
            ],
        }

    whole = {"action": "segment_alloc", "addr": SEGMENT_ADDRESS, "size": plan.peak, "stream": 0}
    events = [{**whole, "time_us": 0, "frames": []}] if plan.peak else []
    freed, allocated = 0, 1
    changes = [(end, freed, tensor) for tensor, _, end in rows]
    changes += [(start, allocated, tensor) for tensor, start, _ in rows]
    for step, change, tensor in sorted(changes):
        if change == allocated:
            events.append(event("alloc", tensor, step))
        else:
            events.append(event("free_requested", tensor, step))
            events.append(event("free_completed", tensor, step))
    return events
