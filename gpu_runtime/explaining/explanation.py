"""What is alive and stranded at a moment, and what would have served its request."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from gpu_runtime.explaining.explained_moment import Moment
from gpu_runtime.explaining.other_allocators import Replays
from gpu_runtime.explaining.stranded import (
    Cause,
    FreeRange,
    Stranded,
    Totals,
    find_stranded,
    free_ranges,
    totals_of,
)
from gpu_runtime.fitting.fit_answer import FitPicture
from instances.formats.call_frames import FrameKind
from instances.traces.allocation_trace import NO_MODULE
from instances.traces.memory_state import SMALL_BYTES, BlockState
from planners.text.byte_units import human_bytes

# Most changes that the advice names.
MOST_CHANGES = 3


@dataclass(frozen=True)
class Alive:
    """Live blocks of one kind and one place."""

    kind: str
    place: str
    size: int
    blocks: int


@dataclass(frozen=True)
class Explanation:
    """All that was found about a moment; without replays if there is no history."""

    name: str
    moment: Moment
    replays: Replays | None

    @cached_property
    def totals(self) -> Totals:
        return totals_of(self.moment.segments)

    @cached_property
    def stranded(self) -> list[Stranded]:
        return find_stranded(self.moment.segments)

    @cached_property
    def free(self) -> list[FreeRange]:
        return free_ranges(self.moment.segments)

    @cached_property
    def alive(self) -> list[Alive]:
        """Live blocks by kind and place, the most bytes first."""
        moment = self.moment
        sizes: dict[tuple[str, str], list[int]] = defaultdict(list)
        for segment in moment.segments:
            pool = f"private pool {segment.pool}: " if segment.pool else ""
            for block in segment.blocks:
                if block.state is BlockState.LIVE:
                    told = block.place != NO_MODULE
                    kind = moment.kinds[block.place] if told else FrameKind.UNTOLD
                    place = moment.places[block.place] if told else ""
                    sizes[f"{pool}{kind}", place].append(block.size)
        found = [Alive(*key, sum(each), len(each)) for key, each in sizes.items()]
        return sorted(found, key=lambda one: (-one.size, one.kind, one.place))

    def reason_against(self, free: FreeRange) -> str:
        """Return why a free range did not serve the request; empty if it could."""
        asked = self.moment.asked
        if asked is None:
            return ""
        reasons = (
            (free.pool != asked.pool, "another pool"),
            (free.stream != asked.stream, "another stream"),
            (free.is_small and asked.size > SMALL_BYTES, "for requests up to 1 MiB"),
            (not free.is_small and asked.size <= SMALL_BYTES, "for requests above 1 MiB"),
            (free.largest < asked.size, "too short"),
        )
        return "; ".join(reason for holds, reason in reasons if holds)

    @property
    def exceeds(self) -> bool:
        """Return True if live bytes and the request exceed all that PyTorch could reserve."""
        asked, room = self.moment.asked, self.moment.room
        if asked is None or room is None or not asked.has_failed:
            return False
        return self.totals.requested + asked.size > room

    def advice(self) -> list[str]:
        """Return what to do, the most useful first."""
        moment, found = self.moment, []
        asked = moment.asked
        if self.exceeds and asked is not None and moment.room is not None:
            over = self.totals.requested + asked.size - moment.room
            return [
                f"live bytes and the request exceed what PyTorch could reserve by "
                f"{human_bytes(over)}: no allocator and no setting helps, only fewer live bytes "
                f"(a smaller batch, checkpointing, an optimizer with less state: `gapless fit` "
                f"says what each saves)"
            ]
        if self.replays is not None:
            has_failed = asked is not None and asked.has_failed
            found += _by_replays(self.replays, moment.room if has_failed else None)
        return found + [ADVICE[cause] for cause in self._causes_that_matter if cause in ADVICE]

    @property
    def _causes_that_matter(self) -> list[Cause]:
        """Return causes with as many bytes as the request lacks, or a tenth of what is reserved."""
        sizes: dict[Cause, int] = defaultdict(int)
        for one in self.stranded:
            sizes[one.cause] += one.size
        least = self.totals.reserved / 10
        if self.moment.asked is not None and self.moment.asked.has_failed:
            least = min(least, self.moment.asked.size - (self.moment.device_free or 0))
        return [cause for cause, size in sizes.items() if size >= least]


ADVICE = {
    Cause.SPLIT: "segments are kept by the live blocks named above: make blocks that stay before "
    "the ones that come and go, or let expandable segments or planned memory serve both",
    Cause.WAITING: "freed blocks wait for another stream (record_stream): let the stream that made "
    "a block wait for the other one, then free it there",
    Cause.PRIVATE: "a private pool serves only its own graphs: capture graphs that never run at "
    "once into one pool, and drop those that are no longer needed",
    Cause.IDLE: "whole segments are idle: PyTorch gives them back before it fails, other processes "
    "get them by torch.cuda.empty_cache()",
}


def _by_replays(replays: Replays, room: int | None) -> list[str]:
    """Return the changes that would have passed; without a room, those that reserve less."""
    was = replays.as_it_was.fit.reserved_peak
    if room is None:
        return [
            f"{one.name} would reserve {human_bytes(was - one.fit.reserved_peak)} less"
            for one in replays.changes[:MOST_CHANGES]
            if one.fit.reserved_peak < was
        ]
    passing = [one for one in replays.changes if one.fit.fits]
    if not passing:
        return ["none of the changes above would have passed"]
    unsure = "" if replays.agrees else ", as far as the replay tells"
    return [
        f"{one.name} would have passed{unsure}, with "
        f"{human_bytes(min(one.fit.reserved_peak, room))} reserved at most"
        for one in passing[:MOST_CHANGES]
    ]


@dataclass(frozen=True)
class ExplanationPage(FitPicture):
    """A page of an explanation, which an installed package offers in ``gapless.plots``."""

    draw: Callable[[Explanation, Path], None]  # type: ignore[assignment]
    suffixes: tuple[str, ...]
    extra: ClassVar[str] = "report"


def alive_by(alive: Sequence[Alive], key: Callable[[Alive], str]) -> list[Alive]:
    """Return live blocks summed over all that share a kind, or a place."""
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for one in alive:
        sums[key(one)][0] += one.size
        sums[key(one)][1] += one.blocks
    return sorted((Alive(name, name, *its) for name, its in sums.items()),
                  key=lambda one: (-one.size, one.kind))  # fmt: skip
