"""The answer if a program fits: tables for people, and a record for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gpu_runtime.fitting.fewest_ranks import FewestRanks
from gpu_runtime.fitting.fit_answer import FitAnswer
from gpu_runtime.fitting.fit_check import LIVE, AllocatorFit, FitCheck, Fits, RankFit
from gpu_runtime.fitting.frontier import Frontier
from gpu_runtime.fitting.largest_value import LargestValues
from gpu_runtime.fitting.live_peak import LivePeak
from gpu_runtime.fitting.remedies import Remedies, Remedy
from gpu_runtime.fitting.step_kinds import notes_on_kinds
from instances.traces.allocation_trace import NOTES
from planners.compare.records import environment
from planners.model.problem_fields import MOST_SHOWN_NAME
from planners.text.byte_units import both_bytes, counted, exact_bytes, human_bytes
from planners.text.plain_text import one_line
from planners.text.table import Column, Row, Table, and_more, columns_of

ANSWERS = {
    Fits.YES: "fits",
    Fits.ONLY_PLANNED: "fits only when planned",
    Fits.NO: "does not fit",
}
TOO_LARGE_STYLE = "bold red"
OUTSIDE = "-"
# Most values that the line about a search lists; a guess.
MOST_VALUES = 12


def peak_line(fit: RankFit) -> str:
    """Return the line above the table: the trace, and the step of the live peak."""
    peak, trace = fit.check.peak, fit.check.trace
    origin = fit.traced.origin
    which = f", rank {origin['rank']} of {origin['ranks']}" if "rank" in origin else ""
    label = f"{fit.traced.label}{which}"
    when = f", in step {peak.step}, {peak.phase}" if peak.step else ""
    return (
        f"{one_line(label, MOST_SHOWN_NAME)}: {counted(trace.request_count, 'request')} in "
        f"{counted(trace.iteration_count, 'step')}; live peak {both_bytes(peak.size)}{when}"
    )


def fit_table(
    fit: RankFit, found: LargestValues | None, fewest: FewestRanks | None = None
) -> Table:
    """Return a line an allocator, the least reserved marked."""
    check, room = fit.check, fit.room
    columns = [
        *columns_of("allocator", "reserved\npeak", "bytes", "over live"),
        *([] if room is None else [Column(f"fits in\n{human_bytes(room)}")]),
        *([] if found is None else [Column(f"largest\n{found.parameter}")]),
        *([] if fewest is None else [Column("fewest\nranks")]),
    ]
    least = min((row.reserved_peak for row in check.rows if row.label != LIVE), default=0)
    rows = []
    for row in check.rows:
        over = row.reserved_peak / check.peak.size - 1
        cells = [
            row.label,
            human_bytes(row.reserved_peak),
            exact_bytes(row.reserved_peak),
            OUTSIDE if row.label == LIVE else f"{100 * over:.2f} %",
            *([] if room is None else [_fits(row, room)]),
            *([] if found is None else [_largest(found, row.label)]),
            *([] if fewest is None else [_fewest(fewest, row.label)]),
        ]
        if row.label != LIVE and row.reserved_peak == least:
            rows.append(Row.best(cells))
        else:
            rows.append(Row(cells, style=TOO_LARGE_STYLE if row.fits is False else ""))
    return Table(columns, rows, is_marked=True, first_left_out=("bytes",))


def ranks_table(every: Sequence[RankFit]) -> Table:
    """Return a line for the first rank of each kind: the peak of reserved bytes by allocator."""
    return _reserved_table("rank", {int(fit.traced.origin["rank"]): fit for fit in every})


def fewest_ranks_table(fewest: FewestRanks) -> Table:
    """Return a line for each number of processes that was tried."""
    return _reserved_table("ranks", fewest.tried)


def _reserved_table(heading: str, fits: Mapping[int, RankFit]) -> Table:
    first = next(iter(fits.values()))
    labels = [row.label for row in first.check.rows]
    with_memory = first.room is not None
    rows = [
        Row([
            f"{number:,}",
            *(human_bytes(row.reserved_peak) for row in fit.check.rows),
            *([ANSWERS[fit.check.answer]] if with_memory else []),
        ])
        for number, fit in fits.items()
    ]  # fmt: skip
    answer = [Column("answer", is_left=True)] if with_memory else []
    return Table([*columns_of(heading, *labels, left=0), *answer], rows)


def kinds_table(peak: LivePeak) -> Table:
    """Return the live bytes at the peak by what they hold, the largest first."""
    rows = [
        Row([human_bytes(one.size), _share(one.size, peak), f"{one.blocks:,}", one.kind])
        for one in peak.kinds
    ]
    return Table([*columns_of("alive", "share", "blocks", left=0), Column("kind", is_left=True)],
                 rows, first_left_out=("blocks",))  # fmt: skip


def remedies_table(remedies: Remedies) -> Table:
    """Return a line for each remedy, the least change that suffices first."""
    room = remedies.now.room
    now = next(row for row in remedies.now.check.rows if row.label == remedies.allocator)
    rows = [
        Row(
            [
                one.name, human_bytes(one.row.reserved_peak), exact_bytes(one.row.reserved_peak),
                f"{100 * (1 - one.row.reserved_peak / now.reserved_peak):.1f} %",
                human_bytes(one.least),
                *([] if room is None else [_fits_after(one)]),
                one.done,
            ],
            style=TOO_LARGE_STYLE if room is not None and one.falls_short == 2 else "",
        )
        for one in remedies.by_use
    ]  # fmt: skip
    columns = (
        *columns_of("remedy", "reserved\npeak", "bytes", "less", "least"),
        *([] if room is None else [Column("fits", is_left=True)]),
        Column("what was done", is_left=True, wraps=True),
    )
    return Table(columns, rows, first_left_out=("bytes",))


def _fits_after(remedy: Remedy) -> str:
    """Return how a remedy fits by itself, else the other allocators under which it does."""
    if remedy.fit.room is None or remedy.falls_short == 1:
        return f"under {', '.join(remedy.fit.check.fitting)}"
    return _fits(remedy.row, remedy.fit.room)


def _share(size: int, peak: LivePeak) -> str:
    return f"{100 * size / peak.size:.1f} %"


def peak_table(peak: LivePeak, most: int) -> Table:
    """Return the live bytes at the peak: the largest groups, then all others together."""
    shown, others = peak.groups[:most], peak.groups[most:]
    rows = [
        Row([
            human_bytes(group.size), _share(group.size, peak), f"{group.blocks:,}", group.since,
            one_line(group.module) or OUTSIDE,
        ])
        for group in shown
    ]  # fmt: skip
    if others:
        size, blocks = sum(one.size for one in others), sum(one.blocks for one in others)
        (more,) = and_more(len(peak.groups), most)
        rows.append(Row([human_bytes(size), _share(size, peak), f"{blocks:,}", "", more]))
    columns = (
        *columns_of("alive", "share", "blocks", left=0),
        Column("since", is_left=True),
        Column("module", is_left=True, wraps=True),
    )
    return Table(columns, rows, first_left_out=("blocks",))


def frontier_table(frontier: Frontier) -> Table:
    """Return a line for each value that was doubled, with the largest value of the other."""
    labels = frontier.labels
    rows = [
        Row([f"{value:,}", *(_largest(found, label) for label in labels)])
        for value, found in frontier.found.items()
        if found.tried
    ]
    return Table(columns_of(frontier.doubled, *labels, left=0), rows)


def fit_notes(fit: RankFit, memory: int | None, found: LargestValues | None) -> list[str]:
    """Return the lines below the tables, the answer last."""
    check, room, outside = fit.check, fit.room, fit.outside
    lines = str(fit.traced.origin.get(NOTES, "")).splitlines() + notes_on_kinds(check.trace)
    if outside.groups:
        groups = " and ".join(counted(size, "rank") for size in outside.groups)
        lines.append(
            f"outside of PyTorch: {human_bytes(outside.libraries)} for libraries, "
            f"{human_bytes(outside.nccl)} for NCCL ({counted(outside.channels, 'channel')} in "
            f"{counted(len(outside.groups), 'group')} of {groups})"
        )
    if memory is None or room is None:
        return lines
    if any(row.gives_back(room) for row in check.rows):
        lines.append("giving back: out of memory, it returns idle memory to the GPU and goes on")
    if found is not None:
        lines += _about_search(found)
    by = f" under {', '.join(check.fitting)}" if check.answer is Fits.YES else ""
    what = "libraries and NCCL" if outside.groups else "libraries"
    less = f", which is {human_bytes(memory)} less {human_bytes(outside.total)} for {what}"
    lines.append(f"{ANSWERS[check.answer]}{by}: {both_bytes(room)}{less if outside.total else ''}")
    return lines


def _about_search(found: LargestValues) -> list[str]:
    values = sorted(found.tried)
    tried = ", ".join(f"{value:,}" for value in values[:MOST_VALUES])
    if len(values) > MOST_VALUES:
        tried = f"{len(values)} values from {values[0]:,} to {values[-1]:,}"
    lines = [f"{found.parameter}: tried {tried}"]
    labels = [row.label for check in found.tried.values() for row in check.rows]
    for label in dict.fromkeys(labels):
        above = found.fitting_above(label)
        if above:
            lines.append(
                f"{label}: {found.parameter} {found.least_too_large(label)} does not fit, though "
                f"{', '.join(map(str, above))} does: the answer lies below the value that does not"
            )
    return lines


def _fits(row: AllocatorFit, room: int) -> str:
    if row.gives_back(room):
        return "giving back"
    return "yes" if row.fits else "no"


def _largest(found: LargestValues, label: str) -> str:
    """Return the largest value that fits, or the bounds that an unfinished search knows."""
    largest, limit = found.largest(label), found.least_too_large(label)
    if limit is not None and found.is_found(label):
        return "none" if largest is None else f"{largest:,}"
    if largest is not None:
        return f">= {largest:,}"
    return "?" if limit is None else f"< {limit:,}"


def _fewest(fewest: FewestRanks, label: str) -> str:
    """Return the fewest ranks that fit, or the bound that is known."""
    found = fewest.fewest(label)
    if found is None:
        return f"> {max(fewest.tried):,}"
    is_least = found == 1 or found > min(fewest.tried)
    return f"{found:,}" if is_least else f"<= {found:,}"


@dataclass(frozen=True)
class Section:
    """A table of an answer, its heading on a page, and the lines around it."""

    heading: str
    table: Table
    above: str = ""
    below: str = ""


def fit_sections(answer: FitAnswer) -> Iterator[Section]:
    """Yield the tables of an answer."""
    worst, frontier = answer.worst, answer.frontier
    table = fit_table(worst, answer.found, answer.fewest)
    yield Section("Reserved by allocator", table, peak_line(worst))
    if len(answer.every) > 1:
        yield Section("Kinds of rank", ranks_table(answer.every))
    if answer.groups:
        peak = worst.check.peak
        yield Section("Live at the peak, by kind", kinds_table(peak))
        yield Section("Live at the peak, by module", peak_table(peak, answer.groups))
    if frontier is not None and frontier.found:
        above = f"largest {frontier.searched} in {human_bytes(worst.room or 0)}"
        below = f"no larger {frontier.doubled}: {frontier.ended}" if frontier.ended else ""
        heading = f"Largest {frontier.searched} by {frontier.doubled}"
        yield Section(heading, frontier_table(frontier), above, below)
    if answer.fewest is not None:
        ended = answer.fewest.ended
        below = f"no more ranks: {ended}" if ended else ""
        above = "the worst rank, by their number"
        yield Section("Fewest ranks", fewest_ranks_table(answer.fewest), above, below)
    if answer.remedies is not None and (answer.remedies.found or answer.remedies.left_out):
        above = f"what would help under {answer.remedies.allocator}; least: under any allocator"
        below = "\n".join(f"left out: {one}" for one in answer.remedies.left_out)
        yield Section("What would help", remedies_table(answer.remedies), above, below)


SCHEMA = "gapless-fit"
SCHEMA_VERSION = 1


def fit_json(answer: FitAnswer) -> str:
    """Return the output of ``--json``; a field that the user did not ask for is null."""
    fit, memory, frontier = answer.worst, answer.memory, answer.frontier
    traced, check, outside = fit.traced, fit.check, fit.outside
    record = {
        "schema": SCHEMA,
        "version": SCHEMA_VERSION,
        "environment": environment(),
        "program": traced.label,
        "origin": dict(traced.origin),
        "memory": memory,
        "beside": outside.libraries,
        "nccl": outside.nccl,
        "answer": None if memory is None else check.answer.value,
        "peak": asdict(check.peak),
        "allocators": [asdict(row) for row in check.rows],
        "ranks": [_rank_record(one) for one in answer.every] if "rank" in traced.origin else None,
        "vary": None if answer.found is None else _search_record(answer.found, check),
        "frontier": None if frontier is None else _frontier_record(frontier, check),
        "fewest_ranks": None if answer.fewest is None else _ranks_record(answer.fewest, check),
        "remedies": None if answer.remedies is None else _remedies_record(answer.remedies),
    }
    return json.dumps(record, indent=1, allow_nan=False) + "\n"


def _rank_record(fit: RankFit) -> dict[str, Any]:
    return {
        "rank": fit.traced.origin["rank"],
        "peak": fit.check.peak.size,
        "allocators": [asdict(row) for row in fit.check.rows],
    }


def _frontier_record(frontier: Frontier, check: FitCheck) -> dict[str, Any]:
    return {
        "doubled": frontier.doubled,
        "ended": frontier.ended,
        "found": {str(value): _search_record(one, check) for value, one in frontier.found.items()},
    }


def _ranks_record(fewest: FewestRanks, check: FitCheck) -> dict[str, Any]:
    return {
        "ended": fewest.ended,
        "fewest": {row.label: fewest.fewest(row.label) for row in check.rows},
        "tried": {
            str(ranks): [asdict(row) for row in fit.check.rows]
            for ranks, fit in fewest.tried.items()
        },
    }


def _remedies_record(remedies: Remedies) -> dict[str, Any]:
    return {
        "found": [
            {
                "name": one.name,
                "done": one.done,
                "allocator": one.allocator,
                "reserved_peak": one.row.reserved_peak,
                "least": one.least,
                "fits": one.row.fits,
                "allocators": [asdict(row) for row in one.fit.check.rows],
            }
            for one in remedies.by_use
        ],
        "left_out": remedies.left_out,
    }


def _search_record(found: LargestValues, check: FitCheck) -> dict[str, Any]:
    labels = [row.label for row in check.rows]
    return {
        "parameter": found.parameter,
        "by": found.by,
        "largest": {
            label: {"value": found.largest(label), "found": found.is_found(label)}
            for label in labels
        },
        "tried": {
            str(value): [asdict(row) for row in one.rows] for value, one in found.tried.items()
        },
    }
