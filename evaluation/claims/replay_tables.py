"""What online allocators took for the same requests, in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from evaluation.claims.replayed_run import (
    CACHING,
    GIB,
    GMLAKE,
    LAST_ITERATION,
    PLANNED,
    STATIC_PLAN,
    STWEAVER,
    VPMM,
    ReplayedRun,
    calls_of,
    replayed_runs,
    share_taken,
    waits_of,
)
from evaluation.claims.stweaver import (
    DENSE,
    OURS,
    PUBLISHED_VARIANT,
    planned_sizes,
    planned_traces,
    share_of_static_plan,
)
from evaluation.claims.stweaver_tables import (
    ADDED_BY_REUSE,
    PUBLISHED_PLAN_SECONDS,
    STATIC_REDUCTION,
    STATIC_SHARE,
    TABLE_3,
)
from evaluation.claims.training_loops import EVERY_MIXTURE
from evaluation.report.figure_texts import percent, seconds
from evaluation.study.record import Record
from planners.text.table import Row, Table, columns_of

NOTHING = "-"
# PyTorch's own stand before these.
NOT_FIRST = (STWEAVER, PLANNED, VPMM, GMLAKE)
VARIANTS = (PUBLISHED_VARIANT, OURS)


def allocators_table(records: Sequence[Record]) -> str:
    """Return peaks of every allocator on every run, the least reserved in bold.

    Calls in the last iteration are left out where no record tells of them.
    """
    has_late = any(record.planner == LAST_ITERATION for record in records)
    rows = []
    for _, run in sorted(replayed_runs(records).items()):
        names = sorted(
            (name for name in run.by_allocator if not name.startswith(LAST_ITERATION)),
            key=lambda name: (*(name.startswith(first) for first in NOT_FIRST), name),
        )
        least = min(run.reserved(name) or 0 for name in names)
        rows += [Row(_allocator_cells(run, name, least, has_late=has_late)) for name in names]
    headings = ("run", "allocator", "reserved (GiB)", "allocated (GiB)", "efficiency",
                "host waits", "device calls",
                *(["in the last iteration"] if has_late else []))  # fmt: skip
    return Table(columns_of(*headings, left=2), rows).markdown()


def _allocator_cells(run: ReplayedRun, name: str, least: int, *, has_late: bool) -> list[str]:
    reserved = _gib(run.reserved(name))
    late = run.by_allocator.get(f"{LAST_ITERATION}, {name}")
    cells = [
        run.name,
        name,
        f"**{reserved}**" if run.reserved(name) == least else reserved,
        _gib(run.allocated(name)),
        _percent(run.efficiency(name)),
        f"{waits_of(name)(run) or 0:,.0f}",
        f"{calls_of(run.by_allocator[name]):,}",
    ]
    if has_late:
        cells.append(NOTHING if late is None else f"{calls_of(late):,}")
    return cells


def parts_table(records: Sequence[Record]) -> str:
    """Return what the parts of STWeaver take of fragmentation, beside section 8.4."""
    runs = replayed_runs(records)
    rows = [Row((name, *_parts(runs[name]))) for name in EVERY_MIXTURE if name in runs]
    whole = STATIC_REDUCTION / STATIC_SHARE
    paper = (STATIC_REDUCTION, whole, STATIC_SHARE, ADDED_BY_REUSE)
    rows.append(Row(("the paper", *6 * [NOTHING], *map(_percent, paper))))
    headings = ("run", "most alive (GiB)", "static plan alone (GiB)", "with reuse (GiB)",
                "fragmentation, caching", "static plan alone", "with reuse",
                "taken by the plan", "with reuse", "share of the plan",
                "added by reuse")  # fmt: skip
    return Table(columns_of(*headings), rows).markdown()


def _parts(run: ReplayedRun) -> list[str]:
    caching = run.by_allocator.get(CACHING)
    alive = None if caching is None else int(caching.statistics["requested"])
    return [
        *(_gib(count) for count in (alive, run.reserved(STATIC_PLAN), run.reserved(STWEAVER))),
        *(_percent(run.fragmentation(name)) for name in (CACHING, STATIC_PLAN, STWEAVER)),
        _percent(share_taken(STATIC_PLAN, CACHING)(run)),
        _percent(share_taken(STWEAVER, CACHING)(run)),
        _percent(share_of_static_plan(run)),
        _percent(share_taken(STWEAVER, STATIC_PLAN)(run)),
    ]


def composition_table(records: Sequence[Record]) -> str:
    """Return what STWeaver's memory is made of, beside Table 3."""
    runs = replayed_runs(records)
    rows = [
        Row((name, *_composition(runs[name])))
        for name in EVERY_MIXTURE
        if name in runs and STWEAVER in runs[name].by_allocator
    ]
    rows += [
        Row((
            f"the paper, {its.setting} (GB)", NOTHING, f"{its.total:.2f}", NOTHING, NOTHING,
            f"{its.static:.2f}", f"{its.fallback_without_reuse:.2f}", f"{its.fallback:.2f}",
            NOTHING,
        ))
        for its in TABLE_3
    ]  # fmt: skip
    headings = ("run", "requests", "total (GiB)", "of it static", "dynamic", "pool",
                "fallback without reuse", "with reuse", "displaced requests")  # fmt: skip
    return Table(columns_of(*headings), rows).markdown()


def _composition(run: ReplayedRun) -> list[str]:
    whole, alone = run.by_allocator[STWEAVER], run.by_allocator.get(STATIC_PLAN)
    its = whole.statistics
    without = None if alone is None else int(alone.statistics["fallback"])
    static, dynamic = int(its["static"]), int(its["dynamic"])
    sizes = (static + dynamic, static, dynamic, int(its["pool"]), without, int(its["fallback"]))
    return [f"{whole.tensors:,}", *map(_gib, sizes), f"{its['displaced_requests']:,}"]


def plan_seconds_table(records: Sequence[Record]) -> str:
    """Return Table 2: what planning takes, there and here, for as many requests."""
    ours = planned_sizes(records)
    rows = [
        Row((
            name, f"{requests:,}", seconds(theirs),
            *(_seconds_of(ours[name].seconds.get(variant)) for variant in VARIANTS),
            *(_percent(ours[name].efficiency(variant)) for variant in VARIANTS),
        ))
        for name, requests, theirs in PUBLISHED_PLAN_SECONDS
        if name in ours
    ]  # fmt: skip
    headings = ("its run", "requests", "the paper (s)", "its planner, here (s)", "ours (s)",
                "efficiency, its planner", "ours")  # fmt: skip
    return Table(columns_of(*headings), rows).markdown()


def efficiency_table(records: Sequence[Record]) -> str:
    """Return how near the published planner and ours come to the bound, trace by trace."""
    traces = planned_traces(records)
    rows = [
        Row((
            name, _gib(traces[name].bound),
            *(_percent(traces[name].efficiency(variant)) for variant in VARIANTS),
        ))
        for name in DENSE
        if name in traces
    ]  # fmt: skip
    headings = ("trace", "lower bound (GiB)", "its planner", "ours")
    return Table(columns_of(*headings), rows).markdown()


def _gib(count: int | None) -> str:
    return NOTHING if count is None else f"{count / GIB:.3f}"


def _percent(share: float | None) -> str:
    return NOTHING if share is None else percent(share)


def _seconds_of(value: float | None) -> str:
    return NOTHING if value is None else seconds(value)
