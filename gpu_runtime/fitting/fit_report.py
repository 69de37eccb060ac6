"""The answer if a program fits: tables for people, and a record for programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gpu_runtime.fitting.fewest_ranks import FewestRanks
from gpu_runtime.fitting.fit_answer import FitAnswer
from gpu_runtime.fitting.frontier import Frontier
from gpu_runtime.fitting.graph_pools import CapturedGraph
from gpu_runtime.fitting.largest_value import LargestValues
from gpu_runtime.fitting.live_peak import PARTS, SET_UP, LiveKind, LivePeak
from gpu_runtime.fitting.outside_memory import OutsideMemory
from gpu_runtime.fitting.rank_fit import LIVE, AllocatorFit, Fits, RankFit
from gpu_runtime.fitting.remedies import Remedies, Remedy
from gpu_runtime.fitting.step_kinds import notes_on_kinds
from instances.traces.allocation_trace import NOTES
from planners.compare.records import environment
from planners.model.problem_fields import MOST_SHOWN_NAME
from planners.processes import standard_output
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
ALIVE = columns_of("alive", "share", "blocks", left=0)


def peak_line(fit: RankFit) -> str:
    """Return the line above the table: the trace, and the step of the live peak."""
    peak, trace, origin = fit.peak, fit.traced.trace, fit.traced.origin
    which = f", rank {origin['rank']} of {origin['ranks']}" if "rank" in origin else ""
    when = f", in step {peak.step}, {peak.phase}" if peak.step else f", in {SET_UP}"
    label = one_line(fit.traced.label + which, MOST_SHOWN_NAME)
    return (
        f"{label}: {counted(trace.request_count, 'request')} in "
        f"{counted(trace.iteration_count, 'step')}; live peak {both_bytes(peak.size)}{when}"
    )


def fit_table(
    fit: RankFit, found: LargestValues | None = None, fewest: FewestRanks | None = None
) -> Table:
    """Return a line an allocator, the least reserved marked."""
    room = fit.room
    asked: list[tuple[str, Callable[[AllocatorFit], str]]] = []
    if room is not None:
        asked.append((f"fits in\n{human_bytes(room)}", lambda row: _fits(row, room)))
    if found is not None:
        asked.append((f"largest\n{found.parameter}", lambda row: _largest(found, row.label)))
    if fewest is not None:
        asked.append(("fewest\nranks", lambda row: _fewest(fewest, row.label)))
    least = min((row.reserved_peak for row in fit.rows if row.label != LIVE), default=0)
    rows = []
    for row in fit.rows:
        is_live = row.label == LIVE
        over = f"{100 * (row.reserved_peak / fit.peak.size - 1):.2f} %"
        cells = [row.label, *_bytes(row), OUTSIDE if is_live else over]
        cells += [cell(row) for _, cell in asked]
        if row.reserved_peak == least and not is_live:
            rows.append(Row.best(cells))
        else:
            rows.append(Row(cells, style=TOO_LARGE_STYLE if row.fits is False else ""))
    headings = ("allocator", "reserved\npeak", "bytes", "over live", *(its for its, _ in asked))
    return Table(columns_of(*headings), rows, is_marked=True, first_left_out=("bytes",))


def _bytes(row: AllocatorFit) -> tuple[str, str]:
    return human_bytes(row.reserved_peak), exact_bytes(row.reserved_peak)


def graphs_table(graphs: Sequence[CapturedGraph], most: int) -> Table:
    """Return a line for each captured graph, and their sum."""
    cells = [
        [f"{number:,}", *map(human_bytes, (one.live, one.left, *one.grown))]
        for number, one in enumerate(graphs, 1)
    ]
    shown = [Row(row) for row in cells[:most]]
    if len(cells) > most:
        shown.append(Row(["", "", "", "", *and_more(len(cells), most)]))
    sums = (sum(one) for one in zip(*(one.grown for one in graphs), strict=True))
    shown.append(Row(["all", "", "", *map(human_bytes, sums)]))
    headings = ("live in it", "left by it", "adds", "in one\npool", "in a pool\neach")
    return Table(columns_of("graph", *headings, left=0), shown)


def graphs_lines(fit: RankFit) -> str:
    """Return what the graphs would hold if all were as large as the first; how many of them fit."""
    count = len(fit.graphs)
    first = human_bytes(fit.graphs[0].own_pool * count)
    lines = [f"a pool each, all as large as the first: {first}"]
    if fit.room is not None:
        fits = sum(one.reserved <= fit.room for one in fit.graphs)
        lines.append(f"{fits} of {counted(count, 'graph')} fit, in the order of their captures")
    return "\n".join(lines)


def parts_table(fit: RankFit) -> Table:
    """Return a line for each part of the run: its live and its reserved peaks."""
    peaks = zip(*(row.parts for row in fit.rows), strict=True)
    rows = [Row([part, *map(human_bytes, one)]) for part, one in zip(PARTS, peaks, strict=False)]
    return Table(columns_of("part", *fit.labels), rows)


def ranks_table(heading: str, fits: Mapping[str, RankFit]) -> Table:
    """Return a line for each kind of rank, or number of ranks: the reserved peak by allocator."""
    first = next(iter(fits.values()))
    with_memory = first.room is not None
    rows = [
        Row([
            name,
            *(human_bytes(row.reserved_peak) for row in fit.rows),
            *([ANSWERS[fit.answer]] if with_memory else []),
        ])
        for name, fit in fits.items()
    ]  # fmt: skip
    answer = [Column("answer", is_left=True)] if with_memory else []
    return Table([*columns_of(heading, *first.labels, left=0), *answer], rows)


def _by_kind(every: Sequence[RankFit]) -> dict[str, RankFit]:
    """Return one of the traced ranks of equal figures, by the numbers of all of them."""
    alike: dict[object, list[RankFit]] = {}
    for fit in every:
        alike.setdefault(fit.rows, []).append(fit)
    return {", ".join(str(one.traced.origin["rank"]) for one in kind): kind[0]
            for kind in alike.values()}  # fmt: skip


def kinds_table(kinds: Sequence[LiveKind], heading: str = "kind", most: int | None = None) -> Table:
    """Return the bytes of live blocks by what they hold, or by their places."""
    whole = max(sum(one.size for one in kinds), 1)
    rows = [Row([*_alive(one.size, one.blocks, whole), one.kind]) for one in kinds[:most]]
    last = Column(heading, is_left=True, wraps=True)
    return Table([*ALIVE, last], rows, first_left_out=("blocks",))


def peak_table(peak: LivePeak, most: int) -> Table:
    """Return the live bytes at the peak: the largest groups, then all others together."""
    shown, others = peak.groups[:most], peak.groups[most:]
    rows = [
        Row([*_alive(its.size, its.blocks, peak.size), its.since, one_line(its.module) or OUTSIDE])
        for its in shown
    ]
    if others:
        size, blocks = sum(its.size for its in others), sum(its.blocks for its in others)
        rows.append(Row([*_alive(size, blocks, peak.size), "", *and_more(len(peak.groups), most)]))
    columns = (*ALIVE, Column("since", is_left=True), Column("module", is_left=True, wraps=True))
    return Table(columns, rows, first_left_out=("blocks",))


def outside_table(outside: OutsideMemory) -> Table:
    """Return a line for what takes memory outside of PyTorch, with the source of its figure."""
    rows = [
        Row([what, OUTSIDE if size is None else human_bytes(size), source])
        for what, (size, source) in outside.sources.items()
    ]
    return Table([*columns_of("outside of PyTorch", "bytes"), Column("source", is_left=True)], rows)


def _alive(size: int, blocks: int, whole: int) -> tuple[str, str, str]:
    return human_bytes(size), f"{100 * size / whole:.1f} %", f"{blocks:,}"


def remedies_table(remedies: Remedies) -> Table:
    """Return a line for each remedy, the least change that suffices first."""
    room = remedies.now.room
    now = remedies.now.row(remedies.allocator)
    rows = [
        Row(
            [
                one.name, *_bytes(one.row),
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
        return f"under {', '.join(remedy.fit.fitting)}"
    return _fits(remedy.row, remedy.fit.room)


def frontier_table(frontier: Frontier) -> Table:
    """Return a line for each value that was doubled, with the largest value of the other."""
    labels = frontier.labels
    rows = [
        Row([f"{value:,}", *(_largest(found, label) for label in labels)])
        for value, found in frontier.found.items()
        if found.tried
    ]
    return Table(columns_of(frontier.doubled, *labels, left=0), rows)


def fit_notes(fit: RankFit, found: LargestValues | None = None) -> list[str]:
    """Return the lines below the tables, the answer last."""
    room, outside = fit.room, fit.outside
    lines = str(fit.traced.origin.get(NOTES, "")).splitlines() + notes_on_kinds(fit.traced.trace)
    if fit.graphs:
        lines.append("captured graphs need pools, so only PyTorch's allocators are replayed")
    if fit.memory is None or room is None:
        return lines
    if any(row.gives_back(room) for row in fit.rows):
        lines.append("giving back: out of memory, it returns idle memory to the GPU and goes on")
    if found is not None:
        lines += _about_search(found)
    by = f" under {', '.join(fit.fitting)}" if fit.answer is Fits.YES else ""
    what = "libraries and NCCL" if outside.groups else "libraries"
    less = f", which is {human_bytes(fit.memory)} less {human_bytes(outside.total)} for {what}"
    lines.append(f"{ANSWERS[fit.answer]}{by}: {both_bytes(room)}{less if outside.total else ''}")
    return lines


def _about_search(found: LargestValues) -> list[str]:
    values = sorted(found.tried)
    tried = ", ".join(f"{value:,}" for value in values[:MOST_VALUES])
    if len(values) > MOST_VALUES:
        tried = f"{len(values)} values from {values[0]:,} to {values[-1]:,}"
    lines = [f"{found.parameter}: tried {tried}"]
    for label in found.labels:
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


def write_sections(sections: Iterable[Section]) -> None:
    """Write tables with the lines around them to standard output."""
    between = ""
    for section in sections:
        above = between + "".join(f"{line}\n" for line in section.above.splitlines())
        standard_output.write_table(section.table, above=above)
        standard_output.write("".join(f"{line}\n" for line in section.below.splitlines()))
        between = "\n"


def fit_sections(answer: FitAnswer) -> Iterator[Section]:
    """Yield the tables of an answer."""
    worst, frontier = answer.worst, answer.frontier
    table = fit_table(worst, answer.found, answer.fewest)
    yield Section("Reserved by allocator", table, peak_line(worst))
    if len(answer.every) > 1:
        yield Section("Kinds of rank", ranks_table("rank", _by_kind(answer.every)))
    if worst.graphs:
        above = f"captured graphs under {worst.rows[1].label}"
        table = graphs_table(worst.graphs, answer.groups)
        yield Section("Captured graphs", table, above, graphs_lines(worst))
    if any(worst.peak.parts):
        yield Section("Peak by part of the run", parts_table(worst))
    if answer.groups:
        yield Section("Live at the peak, by kind", kinds_table(worst.peak.kinds))
        yield Section("Live at the peak, by module", peak_table(worst.peak, answer.groups))
    if worst.memory is not None or worst.outside.groups:
        yield Section("Outside of PyTorch", outside_table(worst.outside))
    if frontier is not None and frontier.found:
        above = f"largest {frontier.searched} in {human_bytes(worst.room or 0)}"
        below = f"no larger {frontier.doubled}: {frontier.ended}" if frontier.ended else ""
        heading = f"Largest {frontier.searched} by {frontier.doubled}"
        yield Section(heading, frontier_table(frontier), above, below)
    if answer.fewest is not None:
        ended = answer.fewest.ended
        below = f"no more ranks: {ended}" if ended else ""
        above = "the worst rank, by their number"
        tried = {f"{ranks:,}": fit for ranks, fit in answer.fewest.tried.items()}
        yield Section("Fewest ranks", ranks_table("ranks", tried), above, below)
    if answer.remedies is not None and (answer.remedies.found or answer.remedies.left_out):
        above = f"what would help under {answer.remedies.allocator}; least: under any allocator"
        below = "\n".join(f"left out: {one}" for one in answer.remedies.left_out)
        yield Section("What would help", remedies_table(answer.remedies), above, below)


SCHEMA = "gapless-fit"
SCHEMA_VERSION = 1


def fit_json(answer: FitAnswer) -> str:
    """Return the output of ``--json``; a field that the user did not ask for is null."""
    fit, found, frontier = answer.worst, answer.found, answer.frontier
    traced, outside = fit.traced, fit.outside
    record = {
        "schema": SCHEMA,
        "version": SCHEMA_VERSION,
        "environment": environment(),
        "program": traced.label,
        "origin": dict(traced.origin),
        "memory": fit.memory,
        "beside": outside.libraries,
        "nccl": outside.nccl,
        "answer": None if fit.memory is None else fit.answer.value,
        "peak": asdict(fit.peak),
        "allocators": _rows(fit),
        "graphs": [asdict(one) for one in fit.graphs] or None,
        "ranks": [_rank_record(one) for one in answer.every] if "rank" in traced.origin else None,
        "vary": None if found is None else _search_record(found, fit),
        "frontier": None if frontier is None else _frontier_record(frontier, fit),
        "fewest_ranks": None if answer.fewest is None else _ranks_record(answer.fewest, fit),
        "remedies": None if answer.remedies is None else _remedies_record(answer.remedies),
    }
    return json.dumps(record, indent=1, allow_nan=False) + "\n"


def _rows(fit: RankFit) -> list[dict[str, Any]]:
    return [asdict(row) for row in fit.rows]


def _tried(tried: Mapping[int, RankFit]) -> dict[str, Any]:
    return {str(value): _rows(fit) for value, fit in tried.items()}


def _rank_record(fit: RankFit) -> dict[str, Any]:
    return {"rank": fit.traced.origin["rank"], "peak": fit.peak.size, "allocators": _rows(fit)}


def _search_record(found: LargestValues, fit: RankFit) -> dict[str, Any]:
    return {
        "parameter": found.parameter,
        "by": found.by,
        "largest": {
            label: {"value": found.largest(label), "found": found.is_found(label)}
            for label in fit.labels
        },
        "tried": _tried(found.tried),
    }


def _frontier_record(frontier: Frontier, fit: RankFit) -> dict[str, Any]:
    return {
        "doubled": frontier.doubled,
        "ended": frontier.ended,
        "found": {str(value): _search_record(one, fit) for value, one in frontier.found.items()},
    }


def _ranks_record(fewest: FewestRanks, fit: RankFit) -> dict[str, Any]:
    return {
        "ended": fewest.ended,
        "fewest": {label: fewest.fewest(label) for label in fit.labels},
        "tried": _tried(fewest.tried),
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
                "allocators": _rows(one.fit),
            }
            for one in remedies.by_use
        ],
        "left_out": remedies.left_out,
    }
