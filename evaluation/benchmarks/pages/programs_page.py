"""Programs of a user's kind under a plan and under PyTorch's allocators, and what is reached."""

from __future__ import annotations

from collections.abc import Sequence

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
from evaluation.benchmarks.writing.page import Page
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


def programs_page(studies: Sequence[ProgramStudy]) -> Page:
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
    page = Page(
        "Programs under a plan",
        "` and `".join(study.command for study in studies),
        measured=" and ".join(dict.fromkeys(study.measured for study in studies)),
    )
    page.say(
        "Reserved memory after the warm-up in GiB, the least in bold; *live* is the peak of "
        "allocated bytes, below which nobody gets, and *over live* is planned / live - 1. Step "
        "times are those of planned memory, by CUDA events from the end of a step to the end of "
        "the next, the median and the worst. The allocators' processes live side by side and have "
        "short turns on an idle device, in their order and back again, so that a machine that is "
        "now faster, now slower is so for all: *to faster* is planned to the faster one of "
        "PyTorch's two, the median over turns of the ratio of their median steps, and *spread* is "
        "by how much the slowest turn of that one exceeds its fastest, the noise of the machine "
        "and, with steps of several kinds, what is unlike in them. *To better* compares the worst "
        "of all timed steps with the smaller of PyTorch's two. *Fallback* is the share of a plan's "
        "requests that it did not serve. Bits are compared in other processes, with deterministic "
        "algorithms and a third of the layers."
    )
    for line in dict.fromkeys(map(_environment, studies)):
        page.say(line)
    shown = _shown_allocators(every)
    page.table(("program", *shown, *MEMORY), [_memory_row(figures, shown) for figures in every])
    _add_reach(page, every)
    _add_times(page, every, shown)
    _add_online(page, every, shown)
    _add_streams(page, every)
    _add_remarks(page, every)
    page.say("## The programs")
    page.say(
        "Random weights and inputs, bfloat16 autocast and fused AdamW where nothing else is said; "
        "language models are GPT-2 of 12 layers of 1,024 and see 8 sequences of 512 tokens."
    )
    page.say(
        "\n".join(f"- **{figures.program.name}**: {figures.program.sentence}" for figures in every)
    )
    return page


def _add_reach(page: Page, every: Sequence[ProgramFigures]) -> None:
    page.say("## What is reached")
    limits = ", ".join(f"{limit.value:.0%} with {kind}" for limit, kind in KINDS.items())
    page.say(
        f"Planned memory is to reserve no more than the better of PyTorch's two, to exceed live "
        f"memory by no more than {limits}; its median step is to be no slower than "
        f"{MOST_STEP - 1:.1%}, its worst step than {MOST_WORST_STEP - 1:.0%} above theirs; and "
        f"all bits are to be equal. What does not hold is in bold. Graphs of PyTorch's keep their "
        f"memory in a private pool, where it is nobody's to plan and does not count as live: there "
        f"live memory is no measure."
    )
    verdicts = [[judge(figures) for judge in REACH.values()] for figures in every]
    page.table(
        ("program", *REACH),
        [
            [figures.program.name, *map(_verdict, row)]
            for figures, row in zip(every, verdicts, strict=True)
        ],
    )
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
    page.say("\n".join(lines))


def _shown_allocators(every: Sequence[ProgramFigures]) -> tuple[Allocator, ...]:
    """Return those of the judgement, and the online ones that some program was run under."""
    ran = {its for figures in every for its in figures.findings.timings}
    return (*JUDGED, *(its for its in ONLINE if its in ran))


def _add_times(page: Page, every: Sequence[ProgramFigures], shown: tuple[Allocator, ...]) -> None:
    page.say("## Step times")
    page.say("Median and worst in milliseconds.")
    rows = []
    for figures in every:
        cells = [figures.program.name]
        for allocator in shown:
            one = figures.by_allocator.get(allocator)
            cells += _times(one)
        rows.append(cells)
    page.table(("program", *(f"{its}{part}" for its in shown for part in ("", " worst"))), rows)


def _add_online(page: Page, every: Sequence[ProgramFigures], shown: tuple[Allocator, ...]) -> None:
    """Hold online allocators against the others, program by program."""
    rows = [
        _online_row(figures, its)
        for figures in every
        for its in shown
        if its in ONLINE and its in figures.findings.timings
    ]
    if rows:
        page.say("## Online allocators")
        page.say(
            "Reserved memory in GiB, and what it is to that of the others; *to faster* as above. "
            "Requests that an allocator has no memory for are PyTorch's, whose reserved memory "
            "counts as well."
        )
        page.table(ONLINE_HEADINGS, rows)


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


def _add_streams(page: Page, every: Sequence[ProgramFigures]) -> None:
    """Show how long streams work and wait, of programs that have several."""
    rows = [
        (
            figures.program.name,
            allocator,
            f"{number} {its.role}",
            f"{its.busy_milliseconds:.3f}",
            f"{its.idle_milliseconds:.3f}",
        )
        for figures in every
        for allocator in Allocator
        if (result := figures.findings.timed(allocator))
        for number, its in enumerate(result.streams, 1)
    ]
    if rows:
        page.say("## Streams")
        page.say(
            "Milliseconds of a step after the last turn, by PyTorch's profiler on the first GPU: "
            "how long each stream works, the busiest first, and how long it is idle between its "
            "first piece of work and its last. A plan under which streams waited for each other "
            "longer would show as idle time of *compute*."
        )
        page.table(STREAMS, rows)


def _add_remarks(page: Page, every: Sequence[ProgramFigures]) -> None:
    """Say what failed and what could not be made deterministic."""
    lines = []
    for figures in every:
        name, findings = figures.program.name, figures.findings
        lines += [f"- {name}, {label}: {message}" for label, message in findings.failures.items()]
        if findings.undetermined:
            operators = ", ".join(findings.undetermined)
            lines.append(f"- {name}: no deterministic algorithm for {operators}")
    if lines:
        page.say("## Failures and remarks")
        page.say("\n".join(lines))


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
