"""A verification as text for people, and as one JSON object for programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from gpu_runtime.verification.corruption import Corruption
from gpu_runtime.verification.verification import Verification
from planners.model.problem import Problem
from planners.text.byte_units import both_bytes, counted, exact_bytes, three_digits
from planners.text.table import Column, Row, Table, and_more, columns_of

SCHEMA_VERSION = 1
SHOWN_ROWS = 20
COLUMNS = (
    *columns_of("tensor", "overwritten by", "bytes", "words", "from offset", "trials", left=2),
    Column("pair", is_left=True),
)

_GIGA = 1e9


def verification_text(verification: Verification, plan_name: str) -> str:
    lines = [*_circumstances(verification, plan_name), *_injections(verification)]
    lines += _corruption_table(verification)
    return "\n".join([*lines, _verdict(verification)]) + "\n"


def verification_record(verification: Verification, plan_name: str) -> dict[str, Any]:
    figures = asdict(verification.figures)
    return {
        "schema": "gapless-verification",
        "version": SCHEMA_VERSION,
        "instance": verification.problem.name,
        "plan": plan_name,
        "peak": verification.peak,
        "tensors": verification.problem.tensor_count,
        "nodes": verification.nodes,
        "streams": verification.streams,
        "events": verification.events,
        "device": figures.pop("name"),
        **figures,
        "bytes_per_second": verification.bytes_per_second,
        "trials": verification.trials,
        "directed_trials": verification.directed_trials,
        "undisturbed_seconds": verification.undisturbed_seconds,
        "seconds": verification.seconds,
        "interrupted": verification.interrupted,
        "passed": verification.passed,
        "lost": verification.lost,
        "injections": [
            {**asdict(injection), "caught": bool(verification.caught(injection))}
            for injection in verification.injections
        ],
        "false_alarms": len(verification.false_alarms()),
        "corruptions": [_corruption_record(found) for found in verification.corruptions],
    }


def _corruption_record(found: Corruption) -> dict[str, Any]:
    return {
        "tensor": found.victim,
        "overwritten_by": found.writer,
        "bytes": found.bytes,
        "words": found.words,
        "offset": found.offset,
        "trials": list(found.trials),
        "disturbances": sorted(kind.value for kind in found.disturbances),
        "unsafe": found.unsafe,
    }


def _circumstances(verification: Verification, plan_name: str) -> list[str]:
    figures, problem = verification.figures, verification.problem
    return [
        f"{problem.name}, plan {plan_name}: peak {both_bytes(verification.peak)}",
        f"program: {counted(problem.tensor_count, 'tensor')}, "
        f"{counted(verification.nodes, 'node')}, "
        f"{counted(verification.streams, 'stream')}, {counted(verification.events, 'event')}",
        f"device: {figures.name}; a large copy reads and writes "
        f"{three_digits(figures.copy_bytes_per_second / _GIGA)} GB/s",
        f"arena: {exact_bytes(figures.arena_bytes)} bytes for a peak of "
        f"{exact_bytes(verification.peak)}{_compression(verification)}; "
        f"the allocator took {exact_bytes(figures.reserved_bytes)}",
        f"a trial stamps {both_bytes(figures.stamped_bytes)} and checks "
        f"{both_bytes(figures.checked_bytes)}, {_undisturbed(verification)}",
        f"{counted(verification.trials, 'trial')}, {verification.directed_trials} of them "
        f"directed, in {verification.seconds:.1f} s all told"
        f"{', then interrupted' if verification.interrupted else ''}",
    ]


def _undisturbed(verification: Verification) -> str:
    if not verification.undisturbed_seconds:
        return "not once to its end"
    milliseconds = three_digits(verification.undisturbed_seconds * 1e3)
    return f"undisturbed in {milliseconds} ms{_rate(verification)}"


def _rate(verification: Verification) -> str:
    """Return the bandwidth; empty for compressed memory, whose time is that of the calls."""
    rate = verification.bytes_per_second
    if verification.figures.arena_bytes != verification.peak or not rate:
        return ""
    share = rate / verification.figures.copy_bytes_per_second
    return f": {three_digits(rate / _GIGA)} GB/s, {share:.0%} of a copy's"


def _compression(verification: Verification) -> str:
    if verification.figures.arena_bytes == verification.peak:
        return ""
    return ", one word for all bytes that the same tensors cover"


def _injections(verification: Verification) -> list[str]:
    # Injections that were not caught come first.
    rows = sorted(verification.injections, key=lambda one: bool(verification.caught(one)))
    lines = [
        f"injected: {_name(verification.problem, one.tensor)} onto "
        f"{_name(verification.problem, one.partner)} at {one.offset:,}: "
        f"{'caught' if verification.caught(one) else 'NOT CAUGHT'}"
        for one in rows[:SHOWN_ROWS]
    ]
    return lines + and_more(len(rows), SHOWN_ROWS)


def _corruption_table(verification: Verification) -> list[str]:
    found = verification.corruptions
    if not found:
        return []
    rows = []
    for corruption in found:
        writer = corruption.writer
        rows.append(
            Row(
                (
                    _name(verification.problem, corruption.victim),
                    "nobody known" if writer is None else _name(verification.problem, writer),
                    f"{corruption.bytes:,}",
                    f"{corruption.words:,}",
                    f"{corruption.offset:,}",
                    f"{len(corruption.trials)}",
                    {True: "unsafe", False: "SAFE", None: "?"}[corruption.unsafe],
                )
            )
        )
    return Table(COLUMNS, rows).plain(most=SHOWN_ROWS).splitlines()


def _verdict(verification: Verification) -> str:
    injections = verification.injections
    alarms = len(verification.false_alarms())
    if injections:
        caught = sum(bool(verification.caught(injection)) for injection in injections)
        return f"{caught} of {len(injections)} injected caught, {counted(alarms, 'false alarm')}"
    if verification.passed and verification.interrupted:
        return f"interrupted: no byte was lost in {counted(verification.trials, 'trial')}"
    if verification.passed:
        return "verified: every tensor held every byte in every trial"
    found = verification.corruptions
    victims = len({corruption.victim for corruption in found})
    lost = f", {verification.lost} wrong words not reported" if verification.lost else ""
    return (
        f"CORRUPTED: {counted(victims, 'tensor')} by {counted(len(found), 'pair')}, "
        f"{alarms} of them not unsafe{lost}"
    )


def _name(problem: Problem, tensor: int) -> str:
    return problem.describe(tensor).removeprefix("tensor ")
