"""Programs whose need is a formula, or made up, and that no allocator has replayed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gpu_runtime.fitting.live_peak import LiveGroup, LivePeak
from gpu_runtime.fitting.outside_memory import OutsideMemory
from gpu_runtime.fitting.rank_fit import LIVE, AllocatorFit, RankFit
from gpu_runtime.fitting.traced_program import Traced
from instances.traces.allocation_trace import AllocationTrace

Need = Callable[[int], int]
NOTHING = Traced("net", AllocationTrace(1, [], [], [], []))


def made_fit(
    sizes: Mapping[str, int],
    room: int | None = None,
    *,
    traced: Traced = NOTHING,
    groups: Sequence[LiveGroup] = (),
    beside: int = 0,
    fits: bool | None = None,
) -> RankFit:
    """Return what allocators reserve; an allocator fits by its bytes, unless all are said to."""
    rows = (
        AllocatorFit(label, size, fits if fits is not None or room is None else size <= room)
        for label, size in sizes.items()
    )
    peak = LivePeak(sizes.get(LIVE, 0), 1, "forward", tuple(groups))
    memory = None if room is None else room + beside
    return RankFit(traced, peak, tuple(rows), OutsideMemory(beside), memory)


def by_formula(room: int, *needs: Need) -> Callable[[Mapping[str, int]], RankFit]:
    """Return the fit at the last of some values, under an allocator for each formula."""

    def fit_at(values: Mapping[str, int]) -> RankFit:
        *_, value = values.values()
        return made_fit({need.__name__: need(value) for need in needs}, room)

    return fit_at
