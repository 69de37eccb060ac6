"""The same history under other allocators and settings, one change at a time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from gpu_runtime.explaining.explained_moment import Moment
from gpu_runtime.fitting.allocator_replay import fit_of_allocator
from gpu_runtime.fitting.rank_fit import AllocatorFit
from gpu_runtime.replaying.recorded_check import CACHING, EXPANDABLE
from instances.traces.trace_requests import requests_of_trace
from planners.registry import ONLINE_ALLOCATORS

PLANNED = "planned"
# Values of settings that are tried, by the allocators that they change: `max_split_size_mb` makes
# expandable segments worse, and has no idle segments to collect.
TRIED = {
    "max_split_size_mb": ("64", "128", "256", "512"),
    "garbage_collection_threshold": ("0.6", "0.8"),
    "roundup_power2_divisions": ("4", "8"),
}
OF_PLAIN_SEGMENTS = ("max_split_size_mb", "garbage_collection_threshold")
# The allocator itself, and a comma outside of brackets.
ALLOCATORS = ("expandable_segments", "backend")
COMMA = re.compile(r",(?![^\[]*\])")


@dataclass(frozen=True)
class Change:
    """A change, and what the history then needs."""

    name: str
    fit: AllocatorFit

    @property
    def order(self) -> tuple[int, ...]:
        return self.fit.fits is False, self.fit.reserved_peak


@dataclass(frozen=True)
class Replays:
    """The history as it was, and after each change."""

    live_peak: int
    as_it_was: Change
    # Changes that suffice come first, of equals the least; without a failure, the fewest bytes.
    changes: tuple[Change, ...]
    # True if the replay ends as the program did: whether the last request fails; or else with no
    # less reserved.
    agrees: bool


def replay_changes(
    moment: Moment, show: Callable[[str], None] = lambda _name: None
) -> Replays | None:
    """Replay the history with one change at a time.

    None if the file has no history, or the request alone is for more than PyTorch could reserve.
    """
    trace, failed = moment.trace, moment.failed
    if trace.before.sum() + (failed is not None) >= trace.request_count:
        return None
    if failed is not None and moment.room is not None and failed.size > moment.room:
        return None
    requests = requests_of_trace(trace)
    live_peak = int(requests.live_bytes(requests.size).max(initial=0))

    def replayed(name: str, allocator: str, parameters: Mapping[str, str]) -> Change:
        show(name)
        chosen = ONLINE_ALLOCATORS.choose_exactly(allocator, parameters)
        return Change(name, fit_of_allocator(requests, chosen, live_peak, moment.room))

    as_it_was = replayed("as it was", moment.allocator, {"settings": moment.settings})
    tried = [[replayed(*one) for one in each] for each in _alternatives(moment)]
    changes = [min(each, key=lambda one: one.order) for each in tried]
    by_use = as_it_was.fit.fits is False
    changes.sort(key=lambda one: one.order[:1] if by_use else one.order[1:])
    reserved = sum(segment.size for segment in moment.segments)
    if failed is not None and moment.room is not None:
        agrees = as_it_was.fit.fits is False
    else:
        agrees = as_it_was.fit.reserved_peak >= reserved or bool(trace.before.any())
    return Replays(live_peak, as_it_was, tuple(changes), agrees)


def _alternatives(moment: Moment) -> Iterator[list[tuple[str, str, Mapping[str, str]]]]:
    """Yield the values of each change: its name, the allocator and its parameters."""
    is_plain = moment.allocator == CACHING
    kept = {"settings": moment.settings}
    yield [(f"expandable_segments:{is_plain}", EXPANDABLE if is_plain else CACHING, kept)]
    for key, values in TRIED.items():
        # Garbage is collected by a share of the memory, which has to be known.
        needs_room = key == "garbage_collection_threshold"
        if (is_plain or key not in OF_PLAIN_SEGMENTS) and not (needs_room and moment.room is None):
            yield [
                (f"{key}:{value}", moment.allocator,
                 {"settings": ",".join(filter(None, (moment.settings, f"{key}:{value}")))})
                for value in values
            ]  # fmt: skip
    parts = [part for part in COMMA.split(moment.settings) if part]
    for part in parts:
        if (key := part.partition(":")[0].strip()) not in ALLOCATORS:
            rest = ",".join(other for other in parts if other != part)
            yield [(f"without {key}", moment.allocator, {"settings": rest})]
    yield [("planned memory", PLANNED, {})]
