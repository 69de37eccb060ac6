"""The explanation of a moment: tables for people, and a record for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict

from gpu_runtime.explaining.explanation import Explanation
from gpu_runtime.explaining.other_allocators import Replays
from gpu_runtime.explaining.stranded import Cause, Holder
from gpu_runtime.fitting.fit_report import Section, kinds_table
from instances.formats.pytorch_snapshot import AskedRequest
from instances.traces.memory_state import PLANNED_POOL
from planners.compare.records import environment
from planners.text.byte_units import both_bytes, counted, exact_bytes, human_bytes
from planners.text.table import Column, Row, Table, columns_of

# Rows of a table, so that all fit one screen; and segments that the lines below one name.
MOST_ROWS, MOST_HOLDERS = 5, 3
UNKNOWN = "-"


def sections_of(explanation: Explanation) -> Iterator[Section]:
    """Yield the tables of an explanation, and the lines around them."""
    moment = explanation.moment
    device = moment.trace.origin.get("device")
    where = "" if device is None else f", GPU {device}"
    above = (
        f"{explanation.name}{where}: {moment.when}\n"
        f"reserved {both_bytes(explanation.reserved)}, allocated "
        f"{both_bytes(explanation.allocated)} in {counted(len(explanation.live), 'block')}; "
        f"{_of_device(explanation)}"
    )
    yield Section("Alive, by kind", kinds_table(explanation.kinds, "kind", MOST_ROWS), above)
    if explanation.places:
        table = kinds_table(explanation.places, "place in the program", MOST_ROWS)
        yield Section("Alive, by place in the program", table)
    yield _stranded_section(explanation)
    if moment.asked is not None:
        yield _request_section(explanation, moment.asked)
    if explanation.replays is not None:
        yield _replays_section(explanation.replays, moment.room)


def _of_device(explanation: Explanation) -> str:
    moment = explanation.moment
    if moment.room is None:
        return "what the GPU had free is not told"
    others = "what others have is not told (--memory)"
    if moment.outside is not None:
        others = f"{human_bytes(moment.outside)} outside of PyTorch"
    if moment.is_limited:
        return (
            f"a limit of the process (set_per_process_memory_fraction) let PyTorch reserve at most "
            f"{human_bytes(moment.room)}; --memory takes the limit itself"
        )
    free = human_bytes(max(0, moment.room - explanation.reserved))
    return f"PyTorch could reserve {human_bytes(moment.room)} ({free} free); {others}"


def _stranded_section(explanation: Explanation) -> Section:
    whole = max(explanation.reserved, 1)

    def row(size: int, cause: str, *where: str) -> Row:
        cells = [human_bytes(size), f"{100 * size / whole:.1f} %", cause]
        return Row([*cells, *(where or [UNKNOWN] * 3)])

    first, rest = explanation.stranded[:MOST_ROWS], explanation.stranded[MOST_ROWS:]
    rows = [
        row(one.size, one.cause, _pool(one.pool), str(one.stream), f"{len(one.holders):,}")
        for one in first
    ]
    rows += [row(sum(one.size for one in rest), "others")] if rest else []
    rows.append(row(explanation.reserved - explanation.allocated, "reserved less allocated"))
    columns = [Column("stranded"), Column("of reserved"), Column("cause", is_left=True)]
    holders = sorted(
        (
            (rank, -holder.stranded, one.cause, holder)
            for one in explanation.stranded
            for rank, holder in enumerate(one.holders[:MOST_HOLDERS])
            if holder.blocks
        ),
        key=lambda one: one[:2],
    )
    rounding = explanation.allocated - explanation.requested
    below = [_holder_line(cause, holder) for _, _, cause, holder in holders[:MOST_HOLDERS]]
    if rounding:
        below.append(f"rounding takes {both_bytes(rounding)} more, within the allocated blocks")
    table = Table([*columns, *columns_of("pool", "stream", "segments", left=0)], rows)
    return Section("Stranded, by cause", table, below="\n".join(below))


def _pool(pool: int) -> str:
    if pool == PLANNED_POOL:
        return "plan"
    return f"private {pool}" if pool else "common"


def _holder_line(cause: Cause, holder: Holder) -> str:
    smallest, segment = holder.smallest, holder.segment
    state = "wait" if cause is Cause.WAITING else "are free"
    told = f", {smallest.told}" if smallest.told else ""
    return (
        f"segment {segment.address:#x} of {human_bytes(segment.size)}: "
        f"{human_bytes(holder.stranded)} {state}, held by {counted(len(holder.blocks), 'block')} "
        f"of {human_bytes(sum(block.size for block in holder.blocks))} in all, the smallest "
        f"{exact_bytes(smallest.size)} bytes at {smallest.address:#x}{told}"
    )


def _request_section(explanation: Explanation, asked: AskedRequest) -> Section:
    has_failed = asked.device_free is not None
    # Without a failure, the request is served already, from a segment that was made for it.
    otherwise = "long enough" if has_failed else "the rest of a segment made for it"
    rows = [
        Row([_pool(one.pool), str(one.stream), human_bytes(one.largest), human_bytes(one.free),
             one.reason_against(asked) or otherwise])
        for one in explanation.free[:MOST_ROWS]
    ]  # fmt: skip
    rows = rows or [Row([UNKNOWN] * 4 + ["nothing that was reserved is free"])]
    told = f", {asked.told}," if asked.told else ""
    above = (
        f"the request of {both_bytes(asked.size)} on stream {asked.stream} in the "
        f"{_pool(asked.pool)} pool{told} "
        f"{'failed' if has_failed else 'made a replay reserve the most'}"
    )
    below = ""
    if asked.device_free is not None and asked.device_free >= asked.size:
        against = "a limit of the process" if explanation.moment.is_limited else "the rounding up"
        below = f"the device had more free than that; {against} stood against it"
    columns = columns_of("pool", "stream", "largest free", "free in all")
    table = Table([*columns, Column("why it did not serve", is_left=True)], rows)
    return Section("The request", table, above, below)


def _replays_section(replays: Replays, room: int | None) -> Section:
    rows = []
    for one in (replays.as_it_was, *replays.changes):
        yes = "yes, gives idle memory back" if one.gives_back(room) else "yes"
        passes = [] if room is None else [yes if one.fits else "no"]
        peak = one.reserved_peak
        rows.append(Row([one.label, human_bytes(peak), exact_bytes(peak), *passes]))
    last = [Column("passes", is_left=True)] if room is not None else []
    table = Table([*columns_of("one change", "reserved peak", "bytes"), *last], rows)
    above = (
        "the same requests with one change, and more than enough memory; live peak "
        f"{both_bytes(replays.live_peak)}"
    )
    below = "the replay of what was does not end as the program did, so these rows are estimates"
    return Section("What would have been", table, above, "" if replays.agrees else below)


def last_lines(explanation: Explanation) -> list[str]:
    """Return what to do, numbered, and what the file does not tell."""
    numbered = [f"{number}. {one}" for number, one in enumerate(explanation.advice(), 1)]
    return [*numbered, *(f"note: {one}" for one in explanation.moment.notes)]


def screen_of(explanation: Explanation) -> str:
    """Return the tables and the lines around them as text."""
    parts = []
    for section in sections_of(explanation):
        parts += [section.above, section.table.plain().rstrip("\n"), section.below]
    return "\n\n".join(filter(None, [*parts, "\n".join(last_lines(explanation))])) + "\n"


def explanation_json(explanation: Explanation) -> str:
    """Return the output of ``--json``; what the file does not tell is null."""
    moment, replays = explanation.moment, explanation.replays
    record = {
        "schema": "gapless-explain",
        "version": 1,
        "environment": environment(),
        "request": None if moment.asked is None else asdict(moment.asked),
        "replays": None if replays is None else asdict(replays),
        "stranded": [
            {
                "cause": one.cause, "pool": one.pool, "stream": one.stream, "size": one.size,
                "segments": len(one.holders),
                "held": [_holder_line(one.cause, its) for its in one.holders[:MOST_HOLDERS]
                         if its.blocks],
            }
            for one in explanation.stranded
        ],
        "advice": explanation.advice(),
        **{name: [asdict(one) for one in getattr(explanation, name)]
           for name in ("kinds", "places", "free")},
        **{name: getattr(explanation, name)
           for name in ("name", "reserved", "allocated", "requested", "lacking")},
        **{name: getattr(moment, name)
           for name in ("when", "allocator", "settings", "room", "outside", "notes")},
    }  # fmt: skip
    return json.dumps(record, indent=1, allow_nan=False) + "\n"
