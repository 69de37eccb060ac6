"""Random programs that run out of memory under PyTorch's rules, and their snapshots."""

from __future__ import annotations

import pickle
from pathlib import Path
from random import Random
from typing import Any

from gpu_runtime._core import LedgerMemory, LedgerStreams, OnlineState
from gpu_runtime.online.online_allocators import make_online
from gpu_runtime.replaying.recorded_check import CACHING, EXPANDABLE
from tests.gpu_runtime.replaying.recordings import MIB

PAGE = 2 * MIB
POOLS = ((0, 0), (0, 7))
STREAMS = 2
STATES = {
    OnlineState.ALLOCATED: "active_allocated",
    OnlineState.PENDING: "active_awaiting_free",
    OnlineState.FREE: "inactive",
}
Range = tuple[int, int, int, int]


class Program:
    """Requests to an allocator of the core, and their history as PyTorch keeps it."""

    def __init__(
        self,
        capacity: int,
        seed: int = 0,
        *,
        is_expandable: bool = False,
        settings: str = "",
        waits: float = 0.3,
    ) -> None:
        self.random = Random(seed)
        # The share of blocks that another stream uses.
        self.waits = waits
        self.memory = LedgerMemory(PAGE, capacity, LedgerStreams.WHEN_TOLD)
        self.capacity, self.settings, self.is_expandable = capacity, settings, is_expandable
        name = EXPANDABLE if is_expandable else CACHING
        self.allocator = make_online(name, {"settings": settings})[1](self.memory)
        self.events: list[dict[str, Any]] = []
        # The request of each block that is live, and of those whose free waits.
        self.live: dict[int, tuple[int, int, int]] = {}
        self.waiting: dict[int, tuple[int, int, int]] = {}
        self.frames: dict[int, list[dict[str, Any]]] = {}
        # The segments when memory ran out.
        self.at_failure: list[dict[str, Any]] | None = None

    def allocate(
        self, size: int, stream: int = 0, pool: int = 0, frames: list[dict[str, Any]] | None = None
    ) -> int | None:
        """Return the address; None if memory ran out, which the history then tells."""
        before, frames = self.ranges(), frames or []
        self.allocator.enter_pool(pool)
        try:
            address = self.allocator.allocate(size, stream)
        except MemoryError:
            self.complete()
            self.tell_ranges(before)
            self.tell("oom", self.capacity - self.reserved(), size, stream, pool, frames)
            self.events[-1]["device_free"] = self.events[-1].pop("addr")
            self.at_failure = self.segments()
            return None
        finally:
            self.allocator.enter_pool(0)
        self.complete()
        self.tell_ranges(before)
        self.tell("alloc", address, size, stream, pool, frames)
        self.live[address], self.frames[address] = (size, stream, pool), frames
        return address

    def free(self, address: int, *, used_by: int | None = None) -> None:
        if used_by is not None:
            self.allocator.use_on(address, used_by)
        request = self.live.pop(address)
        self.allocator.free(address)
        self.tell("free_requested", address, *request)
        self.waiting[address] = request
        self.complete()

    def complete(self) -> None:
        """Tell of the frees that no stream keeps any more."""
        pending = {
            block.address for segment in self.allocator.segments() for block in segment.blocks
            if block.state is OnlineState.PENDING
        }  # fmt: skip
        for address in sorted(self.waiting.keys() - pending):
            self.tell("free_completed", address, *self.waiting.pop(address))

    def give_back(self) -> None:
        before = self.ranges()
        self.allocator.give_back()
        self.complete()
        self.tell_ranges(before)

    def turn(self) -> None:
        """Do something at random; large sizes leave no rest that is too short to be a block."""
        kind = self.random.random()
        if kind < 0.62 or not self.live:
            small, large = self.random.randint(1, MIB), 2 * MIB * self.random.randint(1, 9)
            size = self.random.choice([small, large, large])
            self.allocate(size, self.random.randrange(STREAMS), int(self.random.random() < 0.2))
        elif kind < 0.97:
            address = self.random.choice(sorted(self.live))
            other = 1 - self.live[address][1] if self.random.random() < self.waits else None
            self.free(address, used_by=other)
        else:
            for stream in range(STREAMS):
                self.memory.finish(stream)
            self.give_back()

    def run(self, turns: int) -> None:
        """Run until memory runs out, and some turns further without another failure."""
        while self.at_failure is None:
            self.turn()
        known = self.at_failure
        for address in self.random.sample(sorted(self.live), len(self.live) // 2):
            self.free(address)
        for _ in range(turns):
            kept = len(self.events)
            self.turn()
            failed = [event["action"] == "oom" for event in self.events[kept:]]
            self.events[kept:] = [
                event for event, is_oom in zip(self.events[kept:], failed, strict=True)
                if not is_oom
            ]  # fmt: skip
        self.at_failure = known

    def tell(
        self, action: str, address: int, size: int, stream: int, pool: int, frames: Any = ()
    ) -> None:
        self.events.append({
            "action": action, "addr": address, "size": size, "stream": stream,
            "pool_id": POOLS[pool], "frames": list(frames), "time_us": len(self.events),
        })  # fmt: skip

    def ranges(self) -> set[Range]:
        """Return what is reserved, in pages if it is mapped: address, size, stream, pool."""
        step = PAGE if self.is_expandable else 0
        return {
            (begin, step or one["total_size"], one["stream"], POOLS.index(one["segment_pool_id"]))
            for one in self.segments()
            for begin in range(
                one["address"], one["address"] + one["total_size"], step or one["total_size"]
            )
        }

    def tell_ranges(self, before: set[Range]) -> None:
        now = self.ranges()
        kinds = ("segment_unmap", "segment_map")
        for kind, changed in zip(
            kinds if self.is_expandable else ("segment_free", "segment_alloc"),
            (before - now, now - before),
            strict=True,
        ):
            for one in sorted(changed):
                self.tell(kind, *one)

    def reserved(self) -> int:
        return int(self.allocator.figures().reserved_bytes)

    def segments(self) -> list[dict[str, Any]]:
        """Return the segments as PyTorch writes them, each run of mapped pages as one."""
        found = []
        for segment in self.allocator.segments():
            runs: list[list[Any]] = [[]]
            for block in segment.blocks:
                if block.state in STATES:
                    runs[-1].append(block)
                else:
                    runs.append([])
            for run in filter(None, runs):
                blocks = [
                    {
                        "address": block.address, "size": block.bytes,
                        "requested_size": block.requested, "state": STATES[block.state],
                        "frames": self.frames.get(block.address, []),
                    }
                    for block in run
                ]  # fmt: skip
                sizes = [block.bytes for block in run]
                used = [block.bytes for block in run if block.state is not OnlineState.FREE]
                is_small = max(used) <= MIB if used else sum(sizes) == 2 * MIB
                found.append({
                    "device": 0, "address": run[0].address, "total_size": sum(sizes),
                    "stream": segment.stream, "segment_pool_id": POOLS[segment.pool],
                    "segment_type": "small" if is_small else "large",
                    "is_expandable": self.is_expandable, "blocks": blocks,
                })  # fmt: skip
        return found

    def snapshot(self, *, forgotten: int = 0) -> dict[str, Any]:
        """Return the snapshot, whose history lacks its first events."""
        settings = {
            "PYTORCH_CUDA_ALLOC_CONF": self.settings, "expandable_segments": self.is_expandable,
        }  # fmt: skip
        return {
            "segments": self.segments(), "device_traces": [self.events[forgotten:]],
            "allocator_settings": settings,
        }  # fmt: skip

    def write(self, path: Path, *, forgotten: int = 0) -> Path:
        path.write_bytes(pickle.dumps(self.snapshot(forgotten=forgotten)))
        return path
