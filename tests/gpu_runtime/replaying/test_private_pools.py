"""Recordings with private pools, which a slow reference of PyTorch's rules makes, replayed."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from gpu_runtime.replaying.recorded_check import (
    CACHING,
    EXPANDABLE,
    RecordedCheck,
    check_against_recording,
)
from instances.formats.pytorch_snapshot import read_pytorch_snapshot_trace
from instances.formats.recorded_trace import read_recorded_trace_file, write_recorded_trace
from instances.traces.trace_requests import requests_of_trace
from planners.files.formats import read_requests
from planners.model.online_result import OnlineTerms
from planners.model.request_sequence import RequestAction, RequestSequence
from planners.registry import choose_online
from tests.gpu_runtime.core.online.pytorch_reference import MIB, Reference, Rules

CAPACITY = 4 << 30
# PyTorch's names of pools: of none, of two graphs, and of a pool that a program made.
POOLS = ((0, 0), (0, 1), (0, 2), (3, 0))
STREAMS = 2


class Recording:
    """A random program with private pools, and its history as PyTorch keeps it."""

    def __init__(self, seed: int, *, is_expandable: bool) -> None:
        self.random = Random(seed)
        places = self.random.sample(range(1, 1000), 900)
        self.reference = Reference(
            Rules(), CAPACITY, [place << 34 for place in places], is_expandable=is_expandable
        )
        self.kinds = ("segment_map", "segment_unmap")
        if not is_expandable:
            self.kinds = ("segment_alloc", "segment_free")
        self.events: list[dict[str, Any]] = []
        self.live: list[tuple[int, int, int, int]] = []
        # A replay is told one address for each expandable segment, so none of these may end.
        for place in range(2 * STREAMS * len(POOLS)) if is_expandable else ():
            size = (1000, 2 * MIB)[place % 2]
            self.allocate(size, place // 2 % STREAMS, place // 2 // STREAMS)
        self.live.clear()
        for _ in range(400):
            self.turn()
        while self.live:
            self.free()
        self.leave(self.reference.give_back)

    def turn(self) -> None:
        kind = self.random.random()
        if kind < 0.55:
            most = self.random.choice([700, MIB, 5 * MIB, 30 * MIB])
            stream, pool = self.random.randrange(STREAMS), self.random.randrange(len(POOLS))
            self.allocate(self.random.randint(1, most), stream, pool)
        elif kind < 0.93 and self.live:
            self.free()
        elif kind < 0.96:
            self.leave(self.reference.give_back)
        elif kind < 0.99:
            self.leave(lambda: self.reference.end_pool(self.random.randrange(1, len(POOLS))))

    def allocate(self, size: int, stream: int, pool: int) -> None:
        known = len(self.reference.obtained)
        self.reference.enter_pool(pool)
        address = self.reference.allocate(size, stream)
        self.reference.pool = 0
        for begin, obtained in self.reference.obtained[known:]:
            self.tell(self.kinds[0], begin, obtained, stream, pool)
        self.tell("alloc", address, size, stream, pool)
        self.live.append((address, size, stream, pool))

    def free(self) -> None:
        block = self.live.pop(self.random.randrange(len(self.live)))
        self.reference.free(block[0])
        self.tell("free_requested", *block)
        self.tell("free_completed", *block)

    def leave(self, call: Any) -> None:
        before = self.reserved()
        call()
        for at in sorted(before.keys() - self.reserved().keys()):
            stream, pool, size = before[at]
            self.tell(self.kinds[1], at, size, stream, pool)

    def reserved(self) -> dict[int, tuple[int, int, int]]:
        """Return the stream, the pool and the bytes of each segment, or of each page."""
        return {
            begin: (segment.place[1], segment.place[0], size)
            for segment in self.reference.segments
            for begin, size in (
                [(segment.begin + page * segment.page, segment.page) for page in segment.mapped]
                if segment.page
                else [(segment.begin, segment.end - segment.begin)]
            )
        }

    def tell(self, action: str, address: int, size: int, stream: int, pool: int) -> None:
        self.events.append({
            "action": action, "addr": address, "size": size, "stream": stream,
            "pool_id": POOLS[pool],
        })  # fmt: skip

    def write(self, path: Path) -> Path:
        content = {"segments": [], "device_traces": [self.events]}
        path.write_bytes(pickle.dumps(content))
        return path


def checked(requests: RequestSequence, name: str) -> RecordedCheck:
    [allocator] = choose_online(name)
    return check_against_recording(requests, allocator.info.build()(requests, OnlineTerms()))


@pytest.mark.parametrize("name", [CACHING, EXPANDABLE])
@pytest.mark.parametrize("seed", range(8))
def test_every_address_of_every_pool_is_as_recorded(tmp_path: Path, seed: int, name: str) -> None:
    recording = Recording(seed, is_expandable=name == EXPANDABLE)
    requests = read_requests(recording.write(tmp_path / "run.pickle"))
    ended = requests.pool[requests.action == RequestAction.GIVE_BACK]
    assert ended.any()
    assert not ended.all()
    found = checked(requests, name)
    assert (found.difference, found.agreeing_requests) == ("", requests.request_count)
    assert found.agreeing_segments == found.segments > 5
    # A replay that knows of no pools chooses other addresses.
    without = replace(requests, pool=np.empty(0, dtype=np.int64))
    assert checked(without, name).difference


@pytest.mark.parametrize("is_expandable", [False, True])
def test_a_trace_keeps_its_pools(tmp_path: Path, is_expandable: bool) -> None:
    recording = Recording(3, is_expandable=is_expandable)
    trace = read_pytorch_snapshot_trace(recording.write(tmp_path / "run.pickle"))
    write_recorded_trace(trace, tmp_path / "run.npz")
    again = read_recorded_trace_file(tmp_path / "run.npz")
    assert again.pool.tolist() == trace.pool.tolist()
    assert set(trace.pool.tolist()) == set(range(len(POOLS)))
    assert np.array_equal(requests_of_trace(again).pool, requests_of_trace(trace).pool)
