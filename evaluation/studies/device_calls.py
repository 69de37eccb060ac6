"""A planner that times the device calls by which allocators take memory and give it back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Literal

from gpu_runtime._core import CountingMemory, DeviceMemory, SimulatedMemory
from gpu_runtime.replaying.replay_device import open_gpu
from planners.greedy.naive import naive
from planners.model.budget import Budget
from planners.model.findings import Findings
from planners.model.problem import Problem
from planners.registry import register

# In the order in which they are made.
CALLS = (
    "reserve_range", "create_pages", "map", "set_access", "unmap", "release_pages", "release_range",
)  # fmt: skip
PLAIN = ("allocate_plain", "release_plain")
MIB = 1 << 20

Seconds = dict[str, float]


@register(
    "device-calls",
    summary="Take memory in pieces of one size and give it back; no reuse",
    source="the driver's interface to virtual memory",
)
def device_calls(
    problem: Problem,
    budget: Budget,
    piece_mib: int = 2,
    total_mib: int = 2048,
    rounds: int = 9,
    device: Literal["cuda", "simulated"] = "cuda",
) -> Findings:
    """Take memory and give it back so many times, after once to warm up; the plan is the naive one.

    The piece is a power of two of at least 2 MiB. Access is set for each piece in one half of a
    round, and for the whole range at once in the other half.
    """
    total, piece = total_mib * MIB, piece_mib * MIB
    gpu = open_gpu() if device == "cuda" else None
    memory = SimulatedMemory(2 * MIB, total) if gpu is None else gpu
    taken = [_round(memory, total, piece) for _ in range(1 + rounds)][1:]
    figures: dict[str, str | int | float] = {
        "device": "simulated" if gpu is None else gpu.name,
        "pieces": total // piece,
    }
    for kind in taken[0]:
        figures[f"{kind}_seconds"] = median(its[kind] for its in taken)
    return Findings(naive(problem, budget), statistics=figures)


def _round(memory: DeviceMemory, total: int, piece: int) -> Seconds:
    plain: Seconds = {}
    with _timed(memory, plain, PLAIN) as asked:
        asked.release_plain(asked.allocate_plain(total))
    at_once = _mapped(memory, total, piece, total)
    return {**plain, **_mapped(memory, total, piece, piece), "at_once": at_once["set_access"]}


def _mapped(memory: DeviceMemory, total: int, piece: int, access: int) -> Seconds:
    seconds: Seconds = {}
    with _timed(memory, seconds, CALLS) as asked:
        begin = asked.reserve_range(total)
        addresses = range(begin, begin + total, piece)
        pages = [asked.create_pages(piece) for _ in addresses]
        for address, each in zip(addresses, pages, strict=True):
            asked.map(address, each, piece)
        for address in range(begin, begin + total, access):
            asked.set_access(address, access)
        asked.synchronize()
        for address in addresses:
            asked.unmap(address, piece)
        for each in pages:
            asked.release_pages(each)
        asked.release_range(begin, total)
    return seconds


@contextmanager
def _timed(
    memory: DeviceMemory, seconds: Seconds, kinds: tuple[str, ...]
) -> Iterator[CountingMemory]:
    """Time the calls within this context in the C++ core, which leaves out the interpreter."""
    asked = CountingMemory(memory, is_timed=True)
    yield asked
    seconds.update({kind: getattr(asked.nanoseconds, kind) / 1e9 for kind in kinds})
