"""STWeaver's run-time allocator in plain Python, from sections 5.2 and 6 of Huang et al. 2026."""

from __future__ import annotations

from collections import defaultdict

from gpu_runtime.replaying.causal_profile import ANY_SIZE, CausalProfile
from planners.model.plan import Plan
from planners.model.request_sequence import RequestAction, RequestSequence

Interval = tuple[int, int]
Key = tuple[int, int]
BLOCK = 512


class StweaverModel:
    """Serves requests one by one; knows the profile, the plan, and what was asked so far."""

    def __init__(self, profile: CausalProfile, plan: Plan, pool: int, *, reuse: bool) -> None:
        static = profile.static
        sizes, offsets = static.size.tolist(), plan.offsets.tolist()
        begins, ends = static.start.tolist(), static.end.tolist()
        self.decisions = list(zip(begins, ends, offsets, sizes, strict=True))
        self.places: dict[Key, list[int]] = defaultdict(list)
        for tensor in profile.order.tolist():
            visit, size = profile.keys[tensor].tolist()
            self.places[visit, size].append(offsets[tensor])
        self.spans = profile.spans if reuse else {}
        self.whole = (0, plan.peak)
        self.available = [(0, pool)]
        self.idle: dict[Interval, list[Interval]] = {}
        self.served: dict[Key, int] = {}
        # The planned place that a request holds, the held places, and each request in the pool.
        self.place_of: dict[int, tuple[Key, int]] = {}
        self.held: set[tuple[Key, int]] = set()
        self.live: dict[int, Interval] = {}

    def begin_iteration(self) -> None:
        self.served.clear()

    def allocate(self, request: int, visit: int, size: int) -> int | None:
        """Return the offset in the pool; None for what the caching allocator serves."""
        bytes_ = -(-size // BLOCK) * BLOCK
        key = (visit, size)
        number = self.served.get(key, 0)
        # Memory that lasts keeps its place over iterations.
        while (key, number) in self.held:
            number += 1
        if number < len(self.places.get(key, ())):
            self.served[key] = number + 1
            offset = self.places[key][number]
            if not any(a <= offset and offset + bytes_ <= b for a, b in self.available):
                return None
            self.place_of[request] = key, number
            self.held.add((key, number))
            return self._take(request, offset, bytes_)
        dynamic = key if key in self.spans and key not in self.places else (visit, ANY_SIZE)
        if dynamic not in self.spans:
            return None
        # Equation 6, and best fit.
        candidates = [
            (max(a, c), min(b, d))
            for a, b in self.reusable(self.spans[dynamic])
            for c, d in self.available
            if min(b, d) - max(a, c) >= bytes_
        ]
        if not candidates:
            return None
        return self._take(
            request, min(candidates, key=lambda its: (its[1] - its[0], its))[0], bytes_
        )

    def free(self, request: int) -> None:
        interval = self.live.pop(request, None)
        if interval is None:
            return
        if request in self.place_of:
            self.held.remove(self.place_of.pop(request))
        self.available = united([*self.available, interval])

    def reusable(self, time: Interval) -> list[Interval]:
        """Return the pool without what the plan occupies in a time; equations 3 to 5."""
        if time not in self.idle:
            begin, end = time
            occupied = united(
                [(a, a + s) for ts, te, a, s in self.decisions if ts < end and begin < te]
            )
            self.idle[time] = without([self.whole], occupied)
        return self.idle[time]

    def _take(self, request: int, offset: int, bytes_: int) -> int:
        self.live[request] = offset, offset + bytes_
        self.available = without(self.available, [self.live[request]])
        return offset


def united(intervals: list[Interval]) -> list[Interval]:
    found: list[Interval] = []
    for begin, end in sorted(intervals):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        elif begin < end:
            found.append((begin, end))
    return found


def without(intervals: list[Interval], taken: list[Interval]) -> list[Interval]:
    for begin, end in taken:
        parts = [[(a, min(b, begin)), (max(a, end), b)] for a, b in intervals]
        intervals = [(a, b) for pair in parts for a, b in pair if a < b]
    return intervals


def modelled_offsets(
    requests: RequestSequence, model: StweaverModel, visits: list[int], stream: int
) -> list[int | None]:
    """Return the offset of each request in the pool, None for one outside of it."""
    offsets: list[int | None] = []
    begins = set(requests.iteration_rows.tolist())
    sizes, streams = requests.size.tolist(), requests.stream.tolist()
    rows = zip(requests.action.tolist(), requests.request.tolist(), visits, strict=True)
    for row, (action, request, visit) in enumerate(rows):
        if row in begins:
            model.begin_iteration()
        if action == RequestAction.ALLOCATE:
            is_ours = streams[request] == stream
            offsets.append(model.allocate(request, visit, sizes[request]) if is_ours else None)
        elif action == RequestAction.FREE_COMPLETED:
            model.free(request)
    return offsets
