"""Greedy planners side by side with omnimalloc's: time, memory and peak, Python to Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from itertools import product
from pathlib import Path
from statistics import median

from evaluation.benchmarks.contestants.contestant_runs import ContestantRuns, run_contestant
from evaluation.benchmarks.contestants.omnimalloc_peer import greedy_allocators, require_expressible
from evaluation.benchmarks.contestants.planning_calls import Source, peer_call, planner_call
from evaluation.benchmarks.writing.figure import Figure, gap
from evaluation.benchmarks.writing.page import Page, mebibytes, milliseconds, times
from instances.synthetic import training_trace
from planners import registry
from planners.command_line.progress_line import show_progress
from planners.files.formats import read_any
from planners.model.bounds import lifetime_bound

OURS, THEIRS = "greedy-size-first", "greedy_by_size"
OUR_GREEDY = "greedy-*"
SIZES = (20_000, 60_000)
# None: few layers and many microbatches. Many layers: activations live long, across many others.
LAYERS = (None, 96)
SEEDS = range(5)
# What added no page of memory counts as one, so that there is a ratio.
PAGE_BYTES = 4096


@dataclass(frozen=True)
class GreedyCase:
    """Instances that share a row of the page: one file, or one generator with several seeds."""

    label: str
    sources: tuple[Source, ...]
    # Whether every planner is measured on the first of them.
    shown_in_full: bool = True


@dataclass(frozen=True)
class Duel:
    """Our planner and theirs on one instance."""

    tensors: int
    ours: ContestantRuns
    theirs: ContestantRuns

    @property
    def time_ratio(self) -> float:
        """Their processor time over ours, medians."""
        return self.theirs.seconds / self.ours.seconds

    @property
    def least_time_ratio(self) -> float:
        """Their fastest run over our slowest."""
        return min(self.theirs.cpu_seconds) / max(self.ours.cpu_seconds)

    @property
    def memory_ratio(self) -> float:
        """Their memory over ours, medians."""
        return self.theirs.memory / max(self.ours.memory, PAGE_BYTES)

    @property
    def least_memory_ratio(self) -> float:
        """Their run with the least memory over ours with the most."""
        return min(self.theirs.added_bytes) / max(*self.ours.added_bytes, PAGE_BYTES)


def greedy_page(files: Sequence[Path], command: str, repetitions: int) -> Page:
    """Measure our greedy planners and omnimalloc's on the same instances."""
    allocators = greedy_allocators()
    cases = [*synthetic_cases(), *(_case_of(path) for path in files)]
    page = Page("Greedy planners, side by side with omnimalloc", command)
    page.say(
        f"omnimalloc {version('omnimalloc')} is a package on PyPI. Each run is a fresh process on "
        "the same core. Measured is the planning call alone, from the problem in each side's own "
        "Python objects (a `Problem`; a tuple of `Allocation`) to the plan: its processor time, "
        "and by how much the peak of resident memory rose above what was resident before the "
        "call. Both sides planned two tensors before, so that imports do not count. Our referee "
        "checked every plan; one that fails is shown as invalid."
    )
    _add_duels(page, cases, repetitions)
    for case in cases:
        if case.shown_in_full:
            _add_all_planners(page, case, allocators, repetitions)
    return page


def synthetic_cases() -> list[GreedyCase]:
    """Return the seeded instances of the page."""
    cases = []
    for layers, tensors in product(LAYERS, SIZES):
        make = partial(training_trace, tensors, layers=layers)
        sources = tuple(partial(make, seed=seed) for seed in SEEDS)
        cases.append(GreedyCase(make().name, sources, shown_in_full=tensors == min(SIZES)))
    return cases


def _case_of(path: Path) -> GreedyCase:
    source = partial(read_any, path)
    problem = source()
    require_expressible(problem)
    return GreedyCase(problem.name, (source,))


def _add_duels(page: Page, cases: Sequence[GreedyCase], repetitions: int) -> None:
    page.say(
        f"`{OURS}` against omnimalloc's `{THEIRS}`, the same order and the same fit. A synthetic "
        f"row stands for {len(SEEDS)} seeds and shows medians over them, of the median over "
        f"{repetitions} runs each. A ratio is theirs over ours; *least* is the smallest that any "
        "seed gives when our most costly run meets their cheapest."
    )
    page.table(
        ["instance", "tensors", "ours (ms)", "worst", "theirs (ms)", "worst", "ratio", "least",
         "ours (MiB)", "theirs (MiB)", "ratio", "least", "our peak is"],
        [_duel_row(case, [_duel(source, repetitions) for source in case.sources])
         for case in cases],
    )  # fmt: skip


def _duel(source: Source, repetitions: int) -> Duel:
    problem = source()
    show_progress(f"{problem.name}: {OURS} and {THEIRS}")
    return Duel(
        problem.tensor_count,
        run_contestant(problem, planner_call(source, OURS), repetitions),
        run_contestant(problem, peer_call(source, THEIRS), repetitions),
    )


def _duel_row(case: GreedyCase, duels: Sequence[Duel]) -> list[str]:
    return [
        case.label,
        f"{duels[0].tensors:,}",
        milliseconds(median(duel.ours.seconds for duel in duels)),
        milliseconds(max(max(duel.ours.cpu_seconds) for duel in duels)),
        milliseconds(median(duel.theirs.seconds for duel in duels)),
        milliseconds(max(max(duel.theirs.cpu_seconds) for duel in duels)),
        times(median(duel.time_ratio for duel in duels)),
        times(min(duel.least_time_ratio for duel in duels)),
        mebibytes(median(duel.ours.memory for duel in duels)),
        mebibytes(median(duel.theirs.memory for duel in duels)),
        times(median(duel.memory_ratio for duel in duels)),
        times(min(duel.least_memory_ratio for duel in duels)),
        _peaks(duels),
    ]


def _peaks(duels: Sequence[Duel]) -> str:
    found: dict[str, int] = {}
    for duel in duels:
        word = _comparison(duel.ours.peak, duel.theirs.peak)
        found[word] = found.get(word, 0) + 1
    if len(found) == 1:
        return next(iter(found))
    return ", ".join(f"{word} on {count}" for word, count in found.items())


def _comparison(ours: int | None, theirs: int | None) -> str:
    if ours is None or theirs is None:
        return "invalid" if ours is None else "valid alone"
    return "equal" if ours == theirs else "lower" if ours < theirs else "higher"


def _add_all_planners(
    page: Page, case: GreedyCase, allocators: Sequence[str], repetitions: int
) -> None:
    source = case.sources[0]
    problem = source()
    calls = {
        info.name: planner_call(source, info.name) for info in registry.planners(OUR_GREEDY)
    } | {f"omnimalloc {name}": peer_call(source, name) for name in allocators}
    contestants = {}
    for name, call in calls.items():
        show_progress(f"{problem.name}: {name}")
        contestants[name] = run_contestant(problem, call, repetitions)
    bound = lifetime_bound(problem).bytes
    page.say(
        f"`{case.label}`, {problem.tensor_count:,} tensors, lifetime bound {bound:,} bytes; the "
        "lowest peak, and of equal ones the one that took the least time, is marked with an "
        "asterisk:"
    )
    page.table(
        ["planner", "peak (bytes)", "above bound", "time (ms)", "worst (ms)", "memory (MiB)"],
        [
            _planner_row(name, runs, bound, name == _best(contestants))
            for name, runs in contestants.items()
        ],
    )


def _best(contestants: dict[str, ContestantRuns]) -> str | None:
    ranked = [
        (runs.peak, runs.seconds, name)
        for name, runs in contestants.items()
        if runs.peak is not None
    ]
    return min(ranked)[2] if ranked else None


def _planner_row(name: str, runs: ContestantRuns, bound: int, best: bool) -> list[str | Figure]:
    return [
        f"{'*' if best else ' '} {name}",
        "invalid" if runs.peak is None else f"{runs.peak:,}",
        "-" if runs.peak is None else gap(runs.peak, bound, digits=3),
        milliseconds(runs.seconds),
        milliseconds(max(runs.cpu_seconds)),
        mebibytes(runs.memory),
    ]
