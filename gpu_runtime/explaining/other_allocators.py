"""The same history under other allocators and settings, one change at a time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

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
# The settings that choose the allocator itself, and a comma outside of brackets.
ALLOCATORS = ("expandable_segments", "backend")
COMMA = re.compile(r",(?![^\[]*\])")


@dataclass(frozen=True)
class Replays:
    """The history as it was, and after each change; the labels name the changes."""

    live_peak: int
    as_it_was: AllocatorFit
    # Changes that suffice come first, of equals the least; without a failure, the fewest bytes.
    changes: tuple[AllocatorFit, ...]
    # True if the replay ends as the program did: whether the last request fails; or else with no
    # less reserved.
    agrees: bool = True


def replay_changes(
    moment: Moment, show: Callable[[str], None] = lambda _name: None
) -> Replays | None:
    """Replay the history with one change at a time.

    None if the file has no history, or the request alone is for more than PyTorch could reserve.
    """
    trace, failed, room = moment.trace, moment.failed, moment.room
    has_none = trace.before.sum() + (failed is not None) >= trace.request_count
    if has_none or (failed is not None and room is not None and failed.size > room):
        return None
    requests = requests_of_trace(trace)
    live_peak = int(requests.live_bytes(requests.size).max(initial=0))

    def replayed(name: str, allocator: str, parameters: Mapping[str, str]) -> AllocatorFit:
        show(name)
        chosen = ONLINE_ALLOCATORS.choose_exactly(allocator, parameters)
        return replace(fit_of_allocator(requests, chosen, live_peak, room), label=name)

    was = replayed("as it was", moment.allocator, {"settings": moment.settings})
    tried = ([replayed(*one) for one in each] for each in _alternatives(moment))
    changes = [min(each, key=lambda one: (one.fits is False, one.reserved_peak)) for each in tried]
    changes.sort(key=lambda one: not one.fits if was.fits is False else one.reserved_peak)
    reserved = sum(segment.size for segment in moment.segments)
    if failed is not None and room is not None:
        agrees = was.fits is False
    else:
        agrees = was.reserved_peak >= reserved or bool(trace.before.any())
    return Replays(live_peak, was, tuple(changes), agrees)


def _alternatives(moment: Moment) -> Iterator[list[tuple[str, str, Mapping[str, str]]]]:
    """Yield the values of each change: its name, the allocator and its parameters."""
    is_plain = moment.allocator == CACHING
    other = EXPANDABLE if is_plain else CACHING
    yield [(f"expandable_segments:{is_plain}", other, {"settings": moment.settings})]
    parts = [part for part in COMMA.split(moment.settings) if part]
    for key, values in TRIED.items():
        # Garbage is collected by a share of the memory, which has to be known.
        needs_room = key == "garbage_collection_threshold"
        if (is_plain or key not in OF_PLAIN_SEGMENTS) and not (needs_room and moment.room is None):
            yield [
                (each, moment.allocator, {"settings": ",".join([*parts, each])})
                for each in (f"{key}:{value}" for value in values)
            ]
    for part in parts:
        if (key := part.partition(":")[0].strip()) not in ALLOCATORS:
            rest = ",".join(each for each in parts if each != part)
            yield [(f"without {key}", moment.allocator, {"settings": rest})]
    yield [("planned memory", PLANNED, {})]
