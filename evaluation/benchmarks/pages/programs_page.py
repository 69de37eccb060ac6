"""Programs of a user's kind under a plan and under PyTorch's allocators, and what is reached."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from evaluation.benchmarks.pages.worded_page import WordedPage, table_of
from evaluation.benchmarks.programs.program_list import PROGRAMS, Steps
from evaluation.benchmarks.programs.program_study import ProgramFindings, ProgramStudy
from evaluation.benchmarks.programs.reach import (
    MOST_STEP,
    MOST_WORST_STEP,
    REACH,
    AllocatorFigures,
    ProgramFigures,
    Verdict,
    bits_equal_under,
)
from gpu_runtime.training.run_specification import JUDGED, ONLINE, Allocator
from planners.errors import GaplessError

GIB = 1 << 30
NOTHING = "-"
FAILED = "**failed**"

MEMORY = (
    "live",
    "over live",
    "step ms",
    "to faster",
    "spread",
    "worst ms",
    "to better",
    "fallback",
)
ONLINE_HEADINGS = (
    "program", "allocator", "reserved", "to default", "to expandable", "to planned", "step ms",
    "to faster", "worst ms", "bits",
)  # fmt: skip
STREAMS = ("program", "allocator", "stream", "busy ms", "idle ms")
KINDS = {
    Steps.FEW_KINDS: "steps of a few kinds",
    Steps.RANDOM_LENGTHS: "random lengths",
    Steps.DYNAMIC: "sizes of the moment",
}


def programs_page(studies: Sequence[ProgramStudy]) -> WordedPage:
    """Return the page of some studies, each of other programs."""
    findings: dict[str, ProgramFindings] = {}
    for study in studies:
        for name, its in study.findings.items():
            if name not in PROGRAMS:
                raise GaplessError(f"program {name!r} was measured, which is not in the list now")
            if name in findings:
                raise GaplessError(f"program {name} was measured in two of the files; one is right")
            findings[name] = its
    every = [
        ProgramFigures.of(program, findings[name])
        for name, program in PROGRAMS.items()
        if name in findings
    ]
    shown = _shown_allocators(every)
    memory = [_memory_row(figures, shown) for figures in every]
    times = ("program", *(f"{its}{part}" for its in shown for part in ("", " worst")))
    figures = {
        "environments": "\n\n".join(dict.fromkeys(map(_environment, studies))),
        "memory": table_of(("program", *shown, *MEMORY), memory),
        "live-limits": ", ".join(f"{limit.value:.0%} with {kind}" for limit, kind in KINDS.items()),
        "most-step": f"{MOST_STEP - 1:.1%}",
        "most-worst-step": f"{MOST_WORST_STEP - 1:.0%}",
        **_reach(every),
        "step-times": table_of(times, [_times_row(figures, shown) for figures in every]),
        "online": table_of(ONLINE_HEADINGS, _online_rows(every, shown)),
        "streams": table_of(STREAMS, _stream_rows(every)),
        "remarks": _remarks(every),
        "programs": "\n".join(f"- **{its.program.name}**: {its.program.sentence}" for its in every),
    }
    return WordedPage(
        "programs",
        "` and `".join(study.command for study in studies),
        figures,
        " and ".join(dict.fromkeys(study.measured for study in studies)),
    )


def _reach(every: Sequence[ProgramFigures]) -> dict[str, str]:
    """Return what holds for each program, and of how many each aim holds."""
    verdicts = [[judge(figures) for judge in REACH.values()] for figures in every]
    rows = [
        [figures.program.name, *map(_verdict, row)]
        for figures, row in zip(every, verdicts, strict=True)
    ]
    lines = []
    for name, column in zip(REACH, zip(*verdicts, strict=True), strict=True):
        judged = [
            (figures.program.name, verdict.holds)
            for figures, verdict in zip(every, column, strict=True)
            if verdict.is_judged
        ]
        missed = [program for program, holds in judged if not holds]
        rest = f"; not for {', '.join(missed)}" if missed else ""
        lines.append(f"- {name}: holds for {len(judged) - len(missed)} of {len(judged)}{rest}")
    return {"reach": table_of(("program", *REACH), rows), "reach-counts": "\n".join(lines)}


def _shown_allocators(every: Sequence[ProgramFigures]) -> tuple[Allocator, ...]:
    """Return those of the judgement, and the online ones that some program was run under."""
    ran = {its for figures in every for its in figures.findings.timings}
    return (*JUDGED, *(its for its in ONLINE if its in ran))


def _times_row(figures: ProgramFigures, shown: tuple[Allocator, ...]) -> list[str]:
    times = (_times(figures.by_allocator.get(allocator)) for allocator in shown)
    return [figures.program.name, *chain.from_iterable(times)]


def _online_rows(every: Sequence[ProgramFigures], shown: tuple[Allocator, ...]) -> list[list[str]]:
    """Hold online allocators against the others, program by program."""
    return [
        _online_row(figures, its)
        for figures in every
        for its in shown
        if its in ONLINE and its in figures.findings.timings
    ]


def _online_row(figures: ProgramFigures, its: Allocator) -> list[str]:
    one = figures.by_allocator.get(its)
    bits = _verdict(bits_equal_under(its, figures))
    if one is None:
        return [figures.program.name, its, FAILED, *[NOTHING] * 6, bits]
    median, worst = _times(one)
    return [
        figures.program.name,
        its,
        f"{one.reserved / GIB:.3f}",
        *(
            _change(one.reserved / other.reserved if other else None)
            for other in map(figures.by_allocator.get, JUDGED)
        ),
        median,
        _change(figures.step_ratio_of(its)),
        worst,
        bits,
    ]


def _stream_rows(every: Sequence[ProgramFigures]) -> list[list[str]]:
    """Return how long streams work and wait, of programs that have several."""
    return [
        [
            figures.program.name,
            allocator,
            f"{number} {its.role}",
            f"{its.busy_milliseconds:.3f}",
            f"{its.idle_milliseconds:.3f}",
        ]
        for figures in every
        for allocator in Allocator
        if (result := figures.findings.timed(allocator))
        for number, its in enumerate(result.streams, 1)
    ]


def _remarks(every: Sequence[ProgramFigures]) -> str:
    """Return a line for what failed, and for what could not be made deterministic."""
    lines = []
    for figures in every:
        name, findings = figures.program.name, figures.findings
        lines += [f"- {name}, {label}: {message}" for label, message in findings.failures.items()]
        if findings.undetermined:
            operators = ", ".join(findings.undetermined)
            lines.append(f"- {name}: no deterministic algorithm for {operators}")
    return "\n".join(lines)


def _memory_row(figures: ProgramFigures, shown: tuple[Allocator, ...]) -> list[str]:
    reserved = {its: one.reserved for its, one in figures.by_allocator.items()}
    least = min(reserved.values(), default=None)
    cells = [figures.program.name]
    for allocator in shown:
        found = reserved.get(allocator)
        text = NOTHING if found is None else f"{found / GIB:.3f}"
        cells.append(f"**{text}**" if found is not None and found == least else text)
    planned, live, faster = figures.planned, figures.live, figures.faster_native
    step, worst = _times(planned)
    share = planned.fallback_share if planned else None
    return [
        *cells,
        f"{live / GIB:.3f}" if live else NOTHING,
        f"{planned.reserved / live - 1:.2%}" if planned and live else NOTHING,
        step,
        _change(figures.step_ratio),
        f"{faster.spread:.1%}" if faster else NOTHING,
        worst,
        _change(figures.to_native(lambda one: one.worst_seconds)),
        NOTHING if share is None else f"{share:.2%}",
    ]


def _times(figures: AllocatorFigures | None) -> list[str]:
    """Return the median and the worst step."""
    if figures is None:
        return [NOTHING, NOTHING]
    return [f"{seconds * 1e3:.3f}" for seconds in (figures.step_seconds, figures.worst_seconds)]


def _change(ratio: float | None) -> str:
    return NOTHING if ratio is None else f"{ratio - 1:+.2%}"


def _verdict(verdict: Verdict) -> str:
    return verdict.found if verdict.holds else f"**{verdict.found}**"


def _environment(study: ProgramStudy) -> str:
    return "; ".join(f"{name} {value}" for name, value in study.environment.items())
