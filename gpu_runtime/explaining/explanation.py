"""An explanation: live and stranded bytes at a moment, and advice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from gpu_runtime.explaining.explained_moment import Moment
from gpu_runtime.explaining.other_allocators import Replays
from gpu_runtime.explaining.stranded import Cause, FreeRange, Stranded, find_stranded, free_ranges
from gpu_runtime.fitting.live_peak import LiveKind
from instances.formats.call_frames import BETWEEN
from instances.traces.memory_state import Block, BlockState
from planners.text.byte_units import human_bytes

UNTOLD = "not told"
# Most changes that the advice names.
MOST_CHANGES = 3
ADVICE = {
    Cause.SPLIT: "make blocks that stay, such as those named above, before those that come and go",
    Cause.WAITING: "freed blocks wait for another stream (record_stream): let their own stream "
    "wait for it, and free them there",
    Cause.PRIVATE: "a private pool serves its own graphs alone: capture graphs that never run at "
    "once into one pool, and drop those that are no longer needed",
    Cause.IDLE: "whole segments are idle: PyTorch gives them back before it fails; "
    "torch.cuda.empty_cache() gives them to other processes",
}


@dataclass(frozen=True)
class Explanation:
    """All that was found about a moment; without replays if there is no history."""

    name: str
    moment: Moment
    replays: Replays | None

    @cached_property
    def reserved(self) -> int:
        return sum(segment.size for segment in self.moment.segments)

    @cached_property
    def live(self) -> list[tuple[int, Block]]:
        """The live blocks, each with its pool."""
        return [(segment.pool, block) for segment in self.moment.segments
                for block in segment.blocks if block.state is BlockState.LIVE]  # fmt: skip

    @cached_property
    def allocated(self) -> int:
        return sum(block.size for _, block in self.live)

    @cached_property
    def requested(self) -> int:
        return sum(block.requested for _, block in self.live)

    @cached_property
    def stranded(self) -> list[Stranded]:
        return find_stranded(self.moment.segments)

    @cached_property
    def free(self) -> list[FreeRange]:
        return free_ranges(self.moment.segments)

    @cached_property
    def kinds(self) -> list[LiveKind]:
        return self._alive(
            lambda pool, told: (
                (f"private pool {pool}: " if pool > 0 else "")
                + (told.partition(BETWEEN)[0] or UNTOLD)
            )
        )

    @cached_property
    def places(self) -> list[LiveKind]:
        """Live blocks by place; empty if no place is known."""
        found = self._alive(lambda _, told: told.partition(BETWEEN)[2] or UNTOLD)
        return [] if [one.kind for one in found] == [UNTOLD] else found

    def _alive(self, name: Callable[[int, str], str]) -> list[LiveKind]:
        sizes: dict[str, list[int]] = defaultdict(list)
        for pool, block in self.live:
            sizes[name(pool, block.told)].append(block.size)
        found = [LiveKind(name, sum(each), len(each)) for name, each in sizes.items()]
        return sorted(found, key=lambda one: (-one.size, one.kind))

    @property
    def lacking(self) -> int:
        """Bytes by which live bytes and the request exceed all that PyTorch could reserve."""
        failed, room = self.moment.failed, self.moment.room
        return 0 if failed is None or room is None else self.requested + failed.size - room

    def advice(self) -> list[str]:
        """Return what to do, the most useful first."""
        if self.lacking > 0:
            outside = self.moment.outside
            others = "" if outside is None else f", or less than {human_bytes(outside)} outside"
            return [
                f"live bytes and the request exceed what PyTorch could reserve by "
                f"{human_bytes(self.lacking)}: no allocator and no setting helps, only fewer live "
                f"bytes (a smaller batch, checkpointing, less state of the optimizer: `gapless "
                f"fit` says what each saves){others}"
            ]
        sizes: dict[Cause, int] = defaultdict(int)
        for one in self.stranded:
            sizes[one.cause] += one.size
        most = max(sizes, key=lambda cause: sizes[cause], default=None)
        by_cause = [ADVICE[most]] if most in ADVICE else []
        return [*(self._by_replays(self.replays) if self.replays else []), *by_cause]

    def _by_replays(self, replays: Replays) -> list[str]:
        """Return the changes that would have passed; if nothing failed, those that reserve less."""
        was, room = replays.as_it_was, self.moment.room
        if self.moment.failed is None or room is None or was.fits:
            return [
                f"{one.label} would reserve {human_bytes(was.reserved_peak - one.reserved_peak)} "
                "less"
                for one in replays.changes[:MOST_CHANGES]
                if one.reserved_peak < was.reserved_peak
            ]
        unsure = "" if replays.agrees else ", as far as the replay tells"
        passing = [
            f"{one.label} would have passed{unsure}, with "
            f"{human_bytes(min(one.reserved_peak, room))} reserved at most"
            for one in replays.changes
            if one.fits
        ]
        return passing[:MOST_CHANGES] or ["none of the changes above would have passed"]


@dataclass(frozen=True)
class ExplanationPage:
    """A page of an explanation, which an installed package offers in ``gapless.plots``."""

    draw: Callable[[Explanation, Path], None]
    suffixes: tuple[str, ...]
    extra: ClassVar[str] = "report"
