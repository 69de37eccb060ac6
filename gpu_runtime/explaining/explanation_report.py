"""The explanation of a moment: tables for people, and a record for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from gpu_runtime.explaining.explanation import Alive, Explanation, alive_by
from gpu_runtime.explaining.other_allocators import Change, Replays
from gpu_runtime.explaining.stranded import MOST_HOLDERS, Cause, Holder
from gpu_runtime.fitting.fit_report import Section
from instances.traces.allocation_trace import NO_MODULE
from planners.compare.records import environment
from planners.text.byte_units import both_bytes, counted, exact_bytes, human_bytes
from planners.text.table import Column, Row, Table, columns_of

# Rows of each table that fit one screen.
MOST_KINDS, MOST_PLACES, MOST_CAUSES, MOST_RANGES = 5, 5, 5, 4
UNKNOWN = "-"


def sections_of(explanation: Explanation) -> Iterator[Section]:
    """Yield the tables of an explanation, and the lines around them."""
    moment, totals = explanation.moment, explanation.totals
    alive, reserved = explanation.alive, max(totals.reserved, 1)
    above = (
        f"{explanation.name}: {moment.when}\n"
        f"reserved {both_bytes(totals.reserved)}, allocated {both_bytes(totals.allocated)} in "
        f"{counted(totals.blocks, 'block')}; {_of_device(explanation)}"
    )
    kinds = alive_by(alive, lambda one: one.kind)
    table = _alive_table(kinds[:MOST_KINDS], max(totals.allocated, 1), "alive, by kind")
    yield Section("Alive, by kind", table, above)
    places = alive_by(alive, lambda one: one.place or UNKNOWN)
    if [one.kind for one in places] != [UNKNOWN]:
        table = _alive_table(places[:MOST_PLACES], max(totals.allocated, 1), "alive, by place")
        yield Section("Alive, by place in the program", table)
    rounding = totals.allocated - totals.requested
    rows = [
        Row([human_bytes(one.size), f"{100 * one.size / reserved:.1f} %", one.cause,
             _pool(one.pool), str(one.stream), f"{len(one.holders):,}"])
        for one in explanation.stranded[:MOST_CAUSES]
    ]  # fmt: skip
    rest = sum(one.size for one in explanation.stranded[MOST_CAUSES:])
    if rest:
        rows.append(Row([human_bytes(rest), f"{100 * rest / reserved:.1f} %", "others",
                         *[UNKNOWN] * 3]))  # fmt: skip
    stranded = totals.reserved - totals.allocated
    rows.append(Row([human_bytes(stranded), f"{100 * stranded / reserved:.1f} %",
                     "reserved less allocated", *[UNKNOWN] * 3]))  # fmt: skip
    left = [Column("stranded"), Column("of reserved"), Column("cause", is_left=True)]
    table = Table([*left, *columns_of("pool", "stream", "segments", left=0)], rows)
    below = [
        *_holder_lines(explanation),
        f"rounding takes {both_bytes(rounding)} more, within the allocated blocks",
    ]
    yield Section("Stranded, by cause", table, below="\n".join(below))
    if moment.asked is not None and explanation.free:
        yield _request_section(explanation)
    if explanation.replays is not None:
        yield _replays_section(explanation, explanation.replays)


def _of_device(explanation: Explanation) -> str:
    moment = explanation.moment
    if moment.room is None:
        return "the file does not tell what the device had free, or others took"
    free = "" if moment.device_free is None else f" ({human_bytes(moment.device_free)} free)"
    others = "the file does not tell what others took"
    if moment.outside is not None:
        others = f"{human_bytes(moment.outside)} outside of PyTorch"
    return f"PyTorch could reserve {human_bytes(moment.room)}{free}; {others}"


def _alive_table(alive: list[Alive], allocated: int, heading: str) -> Table:
    rows = [
        Row([human_bytes(one.size), f"{100 * one.size / allocated:.1f} %", f"{one.blocks:,}",
             one.kind])
        for one in alive
    ]  # fmt: skip
    return Table([*columns_of("bytes", "share", "blocks", left=0),
                  Column(heading, is_left=True, wraps=True)], rows)  # fmt: skip


def _pool(pool: int) -> str:
    return f"private {pool}" if pool else "common"


def _holder_lines(explanation: Explanation) -> list[str]:
    """Return a line for each of the first segments of each cause that blocks hold."""
    found = [
        (rank, -holder.stranded, one.cause, holder)
        for one in explanation.stranded
        for rank, holder in enumerate(one.holders[:MOST_HOLDERS])
        if holder.blocks
    ]
    found.sort(key=lambda one: one[:2])
    return [_holder_line(explanation, cause, its) for _, _, cause, its in found[:MOST_HOLDERS]]


def _holder_line(explanation: Explanation, cause: Cause, holder: Holder) -> str:
    smallest, segment = holder.smallest, holder.segment
    place = _place(explanation, smallest.place)
    held = "wait" if cause is Cause.WAITING else "are free"
    named = f", {place}" if place else ""
    return (
        f"segment {segment.address:#x} of {human_bytes(segment.size)}: "
        f"{human_bytes(holder.stranded)} {held}, held by "
        f"{counted(len(holder.blocks), 'block')} of "
        f"{human_bytes(sum(block.size for block in holder.blocks))} in all, the smallest "
        f"{exact_bytes(smallest.size)} bytes at {smallest.address:#x}{named}"
    )


def _place(explanation: Explanation, place: int) -> str:
    return "" if place == NO_MODULE else explanation.moment.places[place]


def _request_section(explanation: Explanation) -> Section:
    moment = explanation.moment
    asked = moment.asked
    assert asked is not None
    rows = [
        Row([_pool(one.pool), str(one.stream), human_bytes(one.largest), human_bytes(one.free),
             explanation.reason_against(one) or "long enough"])
        for one in explanation.free[:MOST_RANGES]
    ]  # fmt: skip
    what = "failed" if asked.has_failed else "made reserved memory the most"
    where = f", {asked.place}" if asked.place else ""
    above = (
        f"the request of {both_bytes(asked.size)} on stream {asked.stream} in the "
        f"{'private' if asked.pool else 'common'} pool{where} {what}"
    )
    below = ""
    if asked.has_failed and moment.device_free is not None and moment.device_free >= asked.size:
        below = (
            "the device had more free than that: a limit of the process (such as "
            "set_per_process_memory_fraction) or another process stood against it"
        )
    table = Table([*columns_of("pool", "stream", "largest free", "free in all"),
                   Column("why it did not serve", is_left=True)], rows)  # fmt: skip
    return Section("The request", table, above, below)


def _replays_section(explanation: Explanation, replays: Replays) -> Section:
    moment = explanation.moment
    rows = [_change_row(one, moment.room) for one in (replays.as_it_was, *replays.changes)]
    passes = [Column("passes", is_left=True)] if moment.room is not None else []
    columns = [*columns_of("one change", "reserved peak", "bytes"), *passes]
    above = f"the same history replayed, with one change; live peak {both_bytes(replays.live_peak)}"
    below = ""
    if not replays.agrees:
        below = (
            "the replay of what was does not end as the program did, so these rows are estimates: "
            "what they reserve is the least possible"
        )
    return Section("What would have been", Table(columns, rows), above, below)


def _change_row(change: Change, room: int | None) -> Row:
    fit = change.fit
    yes = "yes, gives idle memory back" if fit.gives_back(room) else "yes"
    passes = [] if room is None else [yes if fit.fits else "no"]
    return Row([change.name, human_bytes(fit.reserved_peak), exact_bytes(fit.reserved_peak),
                *passes])  # fmt: skip


def last_lines(explanation: Explanation) -> list[str]:
    """Return what to do, numbered, and what the file does not tell."""
    todo = explanation.advice()
    numbered = [f"{number}. {one}" for number, one in enumerate(todo, 1)]
    return [*numbered, *(f"note: {one}" for one in explanation.moment.notes)]


SCHEMA = "gapless-explain"
SCHEMA_VERSION = 1


def explanation_json(explanation: Explanation) -> str:
    """Return the output of ``--json``; what the file does not tell is null."""
    moment, replays = explanation.moment, explanation.replays
    record = {
        "schema": SCHEMA,
        "version": SCHEMA_VERSION,
        "environment": environment(),
        "name": explanation.name,
        "when": moment.when,
        "allocator": moment.allocator,
        "settings": moment.settings,
        **asdict(explanation.totals),
        "room": moment.room,
        "device_free": moment.device_free,
        "outside": moment.outside,
        "alive": [asdict(one) for one in explanation.alive],
        "stranded": [
            {
                "cause": one.cause,
                "pool": one.pool,
                "stream": one.stream,
                "size": one.size,
                "segments": len(one.holders),
                "holders": [_holder(explanation, its) for its in one.holders[:MOST_HOLDERS]],
            }
            for one in explanation.stranded
        ],
        "rounding": explanation.totals.allocated - explanation.totals.requested,
        "request": None if moment.asked is None else asdict(moment.asked),
        "free": [
            {**asdict(one), "reason": explanation.reason_against(one)} for one in explanation.free
        ],
        "replays": None
        if replays is None
        else {
            "live_peak": replays.live_peak,
            "agrees": replays.agrees,
            "rows": [
                {"change": one.name, **asdict(one.fit)}
                for one in (replays.as_it_was, *replays.changes)
            ],
        },
        "exceeds": explanation.exceeds,
        "advice": explanation.advice(),
        "notes": list(moment.notes),
    }
    return json.dumps(record, indent=1, allow_nan=False) + "\n"


def _holder(explanation: Explanation, holder: Holder) -> dict[str, Any]:
    smallest = holder.smallest if holder.blocks else None
    return {
        "address": holder.segment.address,
        "size": holder.segment.size,
        "stranded": holder.stranded,
        "blocks": len(holder.blocks),
        "bytes": sum(block.size for block in holder.blocks),
        "smallest": None if smallest is None else smallest.size,
        "place": "" if smallest is None else _place(explanation, smallest.place),
    }
