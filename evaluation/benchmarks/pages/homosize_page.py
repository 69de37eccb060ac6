"""Spatio-temporal planning on recorded runs: the paper's planner, ours, and what others report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean, median
from typing import Any

from evaluation.benchmarks.cases.homosize_cases import (
    BEST,
    MANY_COUNT,
    OURS,
    PAPER,
    STATIC_PART,
    VARIANTS,
    WHOLE,
    RecordedCase,
    VariantRuns,
    cases_of,
    family_of,
    run_variant,
)
from evaluation.benchmarks.contestants.planning_calls import Source
from evaluation.benchmarks.published.homosize_figures import (
    LARGEST_PUBLISHED,
    PUBLIC_CODE,
    PUBLISHED_EFFICIENCY,
    PUBLISHED_PLAN_SECONDS,
    REPORTED,
)
from evaluation.benchmarks.writing.figure import Figure, efficiency, greedy_peak, percent
from evaluation.benchmarks.writing.page import Page, mebibytes, seconds
from planners import Plan, Problem, bounds_of, check
from planners.command_line.progress_line import show_progress
from planners.errors import GaplessError
from planners.homosize.paper_variant import PaperVariant
from planners.homosize.requests import static_requests
from planners.homosize.synthesis import synthesize

# What was to be reached.
DENSE_EFFICIENCY, EXPERTS_EFFICIENCY = 0.999, 0.995
TIMES_FASTER = 100
SMALL_COUNT, SMALL_SECONDS = 100_000, 0.5
LARGE_SECONDS = 2.0
MANY_BYTES = 1e9

# What the paper's public code does where its text says otherwise, or nothing.
PUBLIC_CODE_READING: dict[str, Any] = {
    "leftover": "group", "acceptance": "product", "least_product": 0.7, "layers_too": True,
}  # fmt: skip

Measured = list[tuple[RecordedCase, dict[str, VariantRuns]]]


def homosize_page(files: Sequence[Path], command: str, repetitions: int) -> Page:
    """Plan recorded iterations with the published planner and ours."""
    if not files:
        raise GaplessError("homosize: at least one recording or instance is needed, found none")
    cases = [case for path in files for case in cases_of(path)]
    measured: Measured = []
    for case in cases:
        show_progress(f"{case.name}, {case.part}")
        runs = {
            label: run_variant(case.source, parameters, repetitions if label == OURS else 1)
            for label, parameters in VARIANTS.items()
        }
        measured.append((case, runs))
    family = [
        (name, source, run_variant(source, BEST, repetitions), run_variant(source, PAPER, 1))
        for name, source in family_of(files)
    ]
    page = Page("Spatio-temporal planning", command)
    page.say(
        "The last iteration of each recording, planned by `homosize` and by the published planner "
        "(`homosize:variant=paper`), the latter also without fusion and with layers alone. Memory "
        "efficiency is the lower bound over the planned pool, of the worst run; 100 % is a proven "
        "optimum. Seconds are processor seconds of the planning call on one thread, from the "
        f"problem to the offsets, bounds included, in a fresh process: of `homosize` the median of "
        f"{repetitions} and, in brackets, the worst, of the published planner one. Every plan "
        "went through the referee. [How it plans, and what "
        "the paper leaves open](../homosize.md)."
    )
    _add_reach(page, measured, family)
    _add_quality(page, measured)
    _add_public_code(page, measured)
    _add_reported(page, measured)
    _add_family(page, family)
    _add_choices(page, cases)
    return page


# ---- What was to be reached ----------------------------------------------------------------------

Family = list[tuple[str, Source, VariantRuns, VariantRuns]]


def _add_reach(page: Page, measured: Measured, family: Family) -> None:
    dense = [pair for pair in measured if pair[0].dense]
    static = [pair for pair in measured if pair[0].part == STATIC_PART]
    rows = _efficiency_rows("dense", dense, DENSE_EFFICIENCY)
    rows += _efficiency_rows("static part where sizes vary", static, EXPERTS_EFFICIENCY)
    compared = [_against_public_code(case, runs[OURS]) for case, runs in measured
                if _is_compared(case)]  # fmt: skip
    if compared:
        rows.append(
            [f"{TIMES_FASTER} times less time than the paper's public code, worst trace",
             f"{min(compared):,.0f}x", _yes(min(compared) >= TIMES_FASTER)]
        )  # fmt: skip
    everything = [(runs[OURS].results[-1], runs[OURS]) for _, runs in measured] + [
        (ours.results[-1], ours) for _, _, ours, _ in family
    ]
    for least, most, limit in (
        (0, SMALL_COUNT, SMALL_SECONDS),
        (SMALL_COUNT + 1, int(1.2 * LARGEST_PUBLISHED), LARGE_SECONDS),
    ):
        slowest = max(
            (runs.worst_seconds for result, runs in everything
             if result.plan is not None and least <= len(result.plan.offsets) <= most),
            default=None,
        )  # fmt: skip
        if slowest is not None:
            rows.append(
                [f"at most {limit:g} s up to {most:,} requests", f"{seconds(slowest)} s",
                 _yes(slowest < limit)]
            )  # fmt: skip
    memory = max((max(ours.added_bytes) for _, _, ours, _ in family), default=0)
    if memory:
        rows.append([f"memory below 1 GB up to {MANY_COUNT:,} requests and more",
                     f"{mebibytes(memory)} MiB", _yes(memory < MANY_BYTES)])  # fmt: skip
    if rows:
        page.say("What `homosize` was to reach, in the worst run of each:")
        page.table(["aim", "found", "reached"], rows)


def _efficiency_rows(what: str, measured: Measured, least: float) -> list[list[str]]:
    found = [runs[OURS].efficiency(case.bound) or 0.0 for case, runs in measured]
    if not found:
        return []
    return [
        [f"memory efficiency of at least {least:.1%}, {what} ({len(found)} problems)",
         percent(min(found)), _yes(min(found) >= least)]
    ]  # fmt: skip


def _yes(reached: bool) -> str:
    return "yes" if reached else "no"


# ---- The tables ----------------------------------------------------------------------------------


def _add_quality(page: Page, measured: Measured) -> None:
    page.say(
        "Every problem, persistent blocks (weights, state of the optimizer) in it or not. *Found "
        "by* is the order that gave the plan of `homosize`, and how many it had tried by the end."
    )
    headers = ["trace", "part", "persistent", "requests", "bound (bytes)"]
    for label in VARIANTS:
        headers += [label, "seconds", *(["found by"] if label == OURS else [])]
    rows = []
    for case, runs in measured:
        row: list[str | Figure] = [
            case.name,
            case.part,
            "in" if case.persistent else "out",
            f"{case.requests:,}",
            f"{case.bound:,}",
        ]
        for label in VARIANTS:
            greedy = case.greedy_peak if label == OURS else None
            row += [_efficiency(runs[label], case.bound, greedy), _took(runs[label], label)]
            row += [_found_by(runs[label])] if label == OURS else []
        rows.append(row)
    page.table(headers, rows)


def _took(runs: VariantRuns, label: str) -> str:
    if runs.peak is None:
        return "-"
    return runs.took() if label == OURS else seconds(runs.worst_seconds)


def _found_by(runs: VariantRuns) -> str:
    """Return the order of the best plan, and how many were tried for it."""
    statistics = runs.results[-1].statistics
    return f"{statistics.get('found_by')} ({statistics.get('attempts')})"


def _is_compared(case: RecordedCase) -> bool:
    return case.name in PUBLIC_CODE and not case.persistent and case.part == WHOLE


def _against_public_code(case: RecordedCase, runs: VariantRuns) -> float:
    """Return how many times the worst run fits into the faster of the public code's planners."""
    return min(PUBLIC_CODE[case.name].seconds) / runs.worst_seconds


def _add_public_code(page: Page, measured: Measured) -> None:
    rows = []
    for case, runs in measured:
        if not _is_compared(case):
            continue
        theirs = PUBLIC_CODE[case.name]
        ours = runs[OURS]
        reached = ours.efficiency(case.bound)
        rows.append(
            [case.name, f"{case.requests:,}", ours.took(),
             "-" if reached is None else percent(1 - reached),
             f"{theirs.requests:,}", " / ".join(f"{value:g}" for value in theirs.seconds),
             " / ".join("-" if v is None else f"{v:g} %" for v in theirs.fragmentation),
             f"{_against_public_code(case, ours):,.0f}x"]
        )  # fmt: skip
    if not rows:
        return
    page.say(
        "Beside the paper's public code, which has two planners. Its figures were measured once, "
        "on the same kind of machine, on the last iteration of the same traces, without persistent "
        "blocks; it leaves out a few requests that are counted here. Fragmentation is that of the "
        "planned pool; the ratio is that of its faster planner to our worst run."
    )
    page.table(
        ["trace", "requests", "seconds", "fragmentation", "its requests", "its seconds",
         "its fragmentation", "ratio"],
        rows,
    )  # fmt: skip


def _add_reported(page: Page, measured: Measured) -> None:
    rows = []
    for case, runs in measured:
        if case.name not in REPORTED or not case.persistent or case.part != WHOLE:
            continue
        reported = REPORTED[case.name]
        row: list[str | Figure] = [case.name]
        row += [
            f"{reported.requested:.3f}",
            f"{reported.allocated:.3f}",
            f"{reported.reserved:.3f}",
        ]
        row.append(f"{reported.requested / reported.reserved:.1%}")
        for label in ("paper", OURS):
            peak = runs[label].peak
            row += ["-" if peak is None else f"{peak / (1 << 30):.3f}",
                    _efficiency(runs[label], case.bound)]  # fmt: skip
        rows.append(row)
    if not rows:
        return
    page.say(
        "Beside PyTorch, which reported these peaks for the very runs that were recorded (GiB; "
        "`.es` ran with expandable segments). Requested is what the program asked for, and held "
        "until the device was done with it; the planned pools hold all of that, persistent blocks "
        "included, and no rounding is needed. (`gpt2-offload` frees blocks long before the device "
        "is done with them, so its allocated bytes say little.)"
    )
    page.table(
        ["trace", "requested", "allocated", "reserved", "requested / reserved", "paper: pool",
         "efficiency", "homosize: pool", "efficiency"],
        rows,
    )  # fmt: skip
    page.say("What section 8.2 of the paper says of its Figure 7 and others, percent:")
    page.table(
        ["setting", "paper's allocator", "PyTorch", "expandable segments"],
        [list(row) for row in PUBLISHED_EFFICIENCY],
    )


def _add_family(page: Page, family: Family) -> None:
    page.say(
        "Growth. A longer step is the last iteration of the largest trace with its last microbatch "
        "several times in a row; synthetic runs are those of `instances.synthetic.training_trace`. "
        "Memory is what the call added, the referee's included."
    )
    rows = []
    for name, source, ours, paper in family:
        problem = source()
        bound = max(known.bytes for known in bounds_of(problem))
        micros = median(result.cpu_seconds for result in ours.results) / problem.tensor_count * 1e6
        rows.append(
            [name, f"{problem.tensor_count:,}", ours.took(), f"{micros:.2f}",
             mebibytes(max(ours.added_bytes)), _efficiency(ours, bound, greedy_peak(problem)),
             paper.took(),
             _efficiency(paper, bound)]
        )  # fmt: skip
    page.table(
        ["problem", "requests", "homosize (s)", "us a request", "MiB", "efficiency", "paper (s)",
         "efficiency"],
        rows,
    )  # fmt: skip
    page.say("Table 2 of the paper, what its planner took (seconds):")
    page.table(
        ["configuration", "requests", "plan"],
        [[name, f"{requests:,}", f"{took:g}"] for name, requests, took in PUBLISHED_PLAN_SECONDS],
    )


def _add_choices(page: Page, cases: Sequence[RecordedCase]) -> None:
    columns = _recordings(cases)
    if not columns:
        return
    rows = []
    for name, choices in readings():
        show_progress(f"choices: {name}")
        cells: list[str | Figure] = []
        shares, fusions = [], 0
        for _, problem, bound in columns:
            peak, accepted = _reading(problem, choices)
            shares.append(bound / peak if peak else 1.0)
            fusions += accepted
            cells.append(efficiency(bound, peak).and_then(f" ({accepted})" if accepted else ""))
        rows.append([name, percent(mean(shares)), percent(min(shares)), f"{fusions:,}", *cells])
    page.say(
        "Choices. Each reading of what the paper leaves open, and each of those that its public "
        f"code has, over the {len(columns)} recordings that plain lifetimes describe, persistent "
        "blocks in, static part alone where sizes vary: memory efficiency of the published "
        "planner, and in brackets the fusions that it accepted, where there are any. *public code* "
        "is the four of its readings together. [What the choices are](../homosize.md)."
    )
    page.table(["reading", "mean", "worst", "fusions", *(name for name, _, _ in columns)], rows)


def _recordings(cases: Sequence[RecordedCase]) -> list[tuple[str, Problem, int]]:
    """Return names, problems and bounds of the recordings that the published planner takes."""
    static = [case for case in cases if case.persistent and case.is_static]
    found = [(case.name, case.source(), case.bound) for case in static]
    return [
        (name, problem, bound)
        for name, problem, bound in found
        if _is_plain(problem) and problem.phase_start is not None
    ]


def _is_plain(problem: Problem) -> bool:
    return problem.stream_count <= 1 and not problem.contiguous and not len(problem.gaps)


def readings() -> list[tuple[str, PaperVariant]]:
    """Return the chosen reading of the paper, those one choice away, and some further away."""
    changes: list[dict[str, Any]] = [
        {}, {"fusion": False}, {"phases": False}, {"transients": "group"}, {"packing": "reused"},
        {"order": "start"}, {"order": "size"}, {"partner": "best"}, {"again": False},
        {"weight": "bytes"}, {"weight": "requests"}, {"layer": "smallest"}, {"beside": False},
        {"leftover": "group"}, {"acceptance": "product"}, {"least_product": 0.7},
        {"layers_too": True}, {"leftover": "group", "acceptance": "product"},
        {"leftover": "group", "acceptance": "product", "least_product": 0.7}, PUBLIC_CODE_READING,
        {"phases": False, "layer": "smallest"}, {"phases": False, "beside": False},
        {"transients": "group", "packing": "reused"},
        {"transients": "group", "packing": "reused", "fusion": False},
        {"transients": "group", "packing": "reused", "order": "size"},
        {"transients": "group", "packing": "reused", "order": "size", "weight": "requests"},
    ]  # fmt: skip
    return [(_name_of(change), replace(PaperVariant(), **change)) for change in changes]


def _name_of(change: Mapping[str, Any]) -> str:
    if change == PUBLIC_CODE_READING:
        return "public code"
    return ", ".join(f"{key}={value}" for key, value in change.items()) or "as chosen"


def _reading(problem: Problem, choices: PaperVariant) -> tuple[int, int]:
    synthesis = synthesize(static_requests(problem), choices)
    plan = Plan.of(problem, synthesis.plan.offsets(problem.tensor_count))
    check(problem, plan)
    return plan.peak, synthesis.fusion_count


def _efficiency(runs: VariantRuns, bound: int, greedy: int | None = None) -> str | Figure:
    if runs.peak is None:
        return runs.results[-1].status.value
    return efficiency(bound, runs.peak, greedy)
