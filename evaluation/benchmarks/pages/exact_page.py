"""Our branch and bound side by side with omnimalloc's SuperMalloc: proofs and what they cost."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from importlib.metadata import version
from pathlib import Path

from evaluation.benchmarks.cases.exact_questions import (
    FITS,
    Question,
    SeedRuns,
    decision_question,
    our_runs,
    peer_runs,
    variant_runs,
)
from evaluation.benchmarks.cases.variations import VARIATIONS
from evaluation.benchmarks.contestants.omnimalloc_peer import require_omnimalloc
from evaluation.benchmarks.writing.figure import Figure, gap, greedy_peak
from evaluation.benchmarks.writing.page import Page, milliseconds, times
from planners.errors import GaplessError
from planners.exact.branch_and_bound.branch_and_bound import NAME as OURS
from planners.exact.branch_and_bound.branch_and_bound import Rules
from planners.model.plan import Parameters, Result, Status

# One thread is what ours takes. Its three heuristics run at the same time on three.
PEER_THREADS = (1, 3)
ABLATION_LIMIT = 5.0
NO_ANSWER = "-"


@dataclass(frozen=True)
class ProofRow:
    """Our planner and theirs on one question."""

    question: Question
    ours: SeedRuns
    # One of each of :data:`PEER_THREADS`.
    theirs: tuple[SeedRuns, ...]


def exact_page(
    files: Sequence[Path], command: str, limit: float, seeds: int, capacity: int | None = None
) -> Page:
    """Measure our exact planner and omnimalloc's on the same instances.

    The limit is wall seconds a run; without a capacity it is asked for the one of each file.
    """
    if not files:
        raise GaplessError("exact: at least one instance file is needed, found none")
    decisions = [decision_question(path, capacity) for path in files]
    require_omnimalloc()
    page = Page(f"{OURS}, side by side with omnimalloc's SuperMalloc", command)
    _explain(page, limit, seeds)
    fits = [_ask(question, limit, seeds) for question in decisions]
    _add_decisions(page, fits)
    _add_variants(page, decisions, limit, seeds)
    least = [_ask(replace(question, capacity=None), limit, seeds) for question in decisions]
    _add_minima(page, least)
    _add_counters(page, fits, least)
    _add_ablation(page, decisions, min(limit, ABLATION_LIMIT))
    return page


def _explain(page: Page, limit: float, seeds: int) -> None:
    page.say(
        f"SuperMalloc is the exact search of omnimalloc {version('omnimalloc')}, a package on "
        "PyPI. Each run is a fresh process on the same core, with a limit of "
        f"{limit:g} s of wall time. Counted is, for both sides alike, the processor time of all "
        "threads from the problem in each side's own Python objects (a `Problem`; a tuple of "
        "`Allocation`) to a plan that our referee has judged. Both sides planned two tensors "
        "before, so that imports do not count. A second, slower referee judged every plan again; "
        "a plan that fails is shown as invalid."
    )
    page.say(
        f"Ours runs on one thread, with {seeds} seeds; shown are the median and the worst. "
        "SuperMalloc takes no seed: it runs as often, but a run that spent its limit is not "
        "repeated. On one thread it tries its three heuristics one after the other, each for as "
        "long as the time lasts; on three threads, here on the same one core, it tries them at "
        f"the same time. `{NO_ANSWER}` with a limit says that the time was over before an answer. "
        "A ratio is their median over ours; with `>`, their processor time until the limit over "
        "our median, so at least that. An asterisk marks the least time of a row."
    )


def _ask(question: Question, limit: float, seeds: int) -> ProofRow:
    return ProofRow(
        question,
        our_runs(question, limit, range(seeds)),
        tuple(peer_runs(question, limit, seeds, threads) for threads in PEER_THREADS),
    )


def _add_decisions(page: Page, rows: Sequence[ProofRow]) -> None:
    page.say("## Does it fit?")
    page.say("The question is whether a plan stays within the capacity; CPU time in milliseconds.")
    page.table(
        ["instance", "tensors", "lifetime bound", "capacity", "answer", *_cost_headers()],
        [*(_decision_row(row) for row in rows), _total_row(rows, blanks=4)],
    )
    page.say(
        "How much our search did for that, medians over the seeds. The nodes per CPU second "
        "include the greedy plans, from which the search starts. The order is the one that found "
        f"the (last part of the) plan; `{NO_ANSWER}` where a greedy plan was enough."
    )
    page.table(
        ["instance", "nodes", "nodes per CPU second", "order"], [_effort_row(row) for row in rows]
    )


def _add_variants(page: Page, questions: Sequence[Question], limit: float, seeds: int) -> None:
    page.say("## The same, seen otherwise")
    page.say(
        "What is tuned to a file fails on a file that is hardly different. Every seed makes a "
        f"variant of each kind, {seeds} in all, and seeds the search; what fits the capacity of "
        "the file fits that of the variant. Shown is how many of the variants ours found a plan "
        "for, and the median and the worst of the nodes and of the CPU time in milliseconds; a "
        f"variant that is still open after {limit:g} s counts with what was spent."
    )
    rows: list[list[str]] = []
    for variation in VARIATIONS:
        runs = [variant_runs(question, variation, limit, range(seeds)) for question in questions]
        rows += [_variant_row(variation, run.question.label, [run]) for run in runs]
        rows.append(_variant_row(variation, "all", runs))
    page.table(
        ["variants", "instance", "fits", "nodes", "worst", "CPU time", "worst"],
        rows,
    )


def _variant_row(variation: str, label: str, runs: Sequence[SeedRuns]) -> list[str]:
    results = [result for run in runs for result in run.results]
    if any(not result.valid for result in results):
        return [variation, label, *["invalid"] * 5]
    nodes = [_nodes(result) for result in results]
    seconds = [run.seconds for seeds in runs for run in seeds.by_seed]
    return [
        variation,
        label,
        f"{sum(result.status in FITS for result in results)} of {len(results)}",
        _whole(statistics.median(nodes)),
        _whole(max(nodes)),
        milliseconds(statistics.median(seconds)),
        milliseconds(max(seconds)),
    ]


def _add_minima(page: Page, rows: Sequence[ProofRow]) -> None:
    page.say("## The smallest peak")
    page.say(
        "Nothing is given but the tensors. A peak is proven to be the smallest, or the answer is "
        "an interval, `[lower bound, peak]`, the widest over the seeds; bytes, and CPU time in "
        "milliseconds. The totals are of the instances that ours proved."
    )
    answers = ["ours: answer", *(f"{_threads(count)}: answer" for count in PEER_THREADS)]
    page.table(
        ["instance", "lifetime bound", *answers, *_cost_headers()],
        [*(_minimum_row(row) for row in rows), *_total_of_proven(rows, blanks=1 + len(answers))],
    )


def _add_counters(page: Page, fits: Sequence[ProofRow], least: Sequence[ProofRow]) -> None:
    page.say("## Which rule pruned what")
    page.say(
        "Counters of our search with the first seed. `by_` counts the nodes that a rule refuted "
        "(`section`: the bytes left in a section do not fit above what is there; it includes what "
        "the rule `lowest` adds), `dominated` and `identical` the candidates that were skipped, "
        "`raised` the offsets that were raised, `splits` the nodes that fell into independent "
        "parts. Nothing where a greedy plan was enough. Does it fit:"
    )
    _add_counter_table(page, fits)
    page.say("The smallest peak:")
    _add_counter_table(page, least)


def _add_counter_table(page: Page, rows: Sequence[ProofRow]) -> None:
    found = {row.question.label: _counters(row.ours.results[0]) for row in rows}
    names = list(dict.fromkeys(name for counters in found.values() for name in counters))
    page.table(
        ["instance", *names],
        [
            [label, *(f"{counters[name]:,}" if name in counters else NO_ANSWER for name in names)]
            for label, counters in found.items()
        ],
    )


def _add_ablation(page: Page, questions: Sequence[Question], limit: float) -> None:
    page.say("## Each rule left out")
    page.say(
        "The first question again, with one rule off at a time, the first seed and a limit of "
        f"{limit:g} s; `{NO_ANSWER}` where that ran out. Nodes repeat exactly, times are of one "
        "run. An order that fails uses up its share of nodes with or without a rule, so nodes "
        "grow in steps. A rule for chains has nothing to do here, where there are none. An "
        "asterisk marks the least of a column. CPU time in milliseconds:"
    )
    runs = {
        name: [our_runs(question, limit, [0], parameters) for question in questions]
        for name, parameters in rule_settings().items()
    }
    labels = [question.label for question in questions]
    _add_ablation_table(page, labels, runs, lambda run: run.seconds, milliseconds)
    page.say("Nodes:")
    _add_ablation_table(page, labels, runs, lambda run: _nodes(run.results[0]), _whole)


def rule_settings() -> dict[str, Parameters]:
    """Return the parameters of our planner for every row of the ablation."""
    return {"all rules": {}} | {
        f"without {rule.name}": {rule.name: False} for rule in fields(Rules)
    }


def _add_ablation_table(
    page: Page,
    labels: Sequence[str],
    runs: dict[str, list[SeedRuns]],
    cost: Callable[[SeedRuns], float],
    show: Callable[[float], str],
) -> None:
    columns = list(zip(*runs.values(), strict=True))
    least = [min((cost(run) for run in column if run.settled), default=-1) for column in columns]
    page.table(
        ["rules", *labels, "all"],
        [
            [
                name,
                *(
                    _cost_cell(run, show(cost(run)), best=cost(run) == lowest)
                    for run, lowest in zip(row, least, strict=True)
                ),
                _bounded(show(sum(map(cost, row))), all(run.settled for run in row)),
            ]
            for name, row in runs.items()
        ],
    )


def _cost_headers() -> list[str]:
    theirs = [[_threads(threads), "worst", "ratio"] for threads in PEER_THREADS]
    return ["ours", "worst", *(header for group in theirs for header in group)]


def _threads(count: int) -> str:
    return f"SuperMalloc, {count} thread{'' if count == 1 else 's'}"


def _decision_row(row: ProofRow) -> list[str]:
    return [
        row.question.label,
        f"{row.question.problem.tensor_count:,}",
        f"{row.question.lifetime_bound:,}",
        f"{row.question.capacity:,}",
        _decision(row.ours),
        *_costs(row),
    ]


def _minimum_row(row: ProofRow) -> list[str | Figure]:
    return [
        row.question.label,
        f"{row.question.lifetime_bound:,}",
        _minimum(row.ours, greedy_peak(row.question.problem)),
        *map(_minimum, row.theirs),
        *_costs(row),
    ]


def _decision(runs: SeedRuns) -> str:
    words = {_decision_word(result) for result in runs.results}
    return " or ".join(sorted(words))


def _decision_word(result: Result) -> str:
    if result.status is Status.INVALID:
        return "invalid"
    if result.status is Status.INFEASIBLE:
        return "does not fit"
    return "fits" if result.status in FITS else NO_ANSWER


def _minimum(runs: SeedRuns, greedy: int | None = None) -> Figure:
    if any(not result.valid for result in runs.results):
        return Figure("invalid")
    peaks = [result.peak for result in runs.results if result.peak is not None]
    bounds = [result.lower_bound for result in runs.results]
    faults = (gap(peak, max(bounds), greedy).fault for peak in peaks)
    fault = next(filter(None, faults), "")
    highest = f"{max(peaks):,}" if len(peaks) == len(runs.results) else NO_ANSWER
    if runs.settled:
        return Figure(f"{highest} proven", fault)
    interval = f"[{min(bounds):,}, {highest}]"
    count = runs.settled_count
    proven = "" if count == 0 else f", {count} of {len(runs.results)} proven"
    return Figure(interval + proven, fault)


def _costs(row: ProofRow) -> list[str]:
    contestants = (row.ours, *row.theirs)
    least = min((runs.seconds for runs in contestants if runs.settled), default=None)
    cells = [_contestant_cells(runs, runs.seconds == least) for runs in contestants]
    for runs, theirs in zip(cells[1:], row.theirs, strict=True):
        runs.append(_ratio([theirs], [row.ours]))
    return [cell for group in cells for cell in group]


def _contestant_cells(runs: SeedRuns, best: bool) -> list[str]:
    median = _cost_cell(runs, milliseconds(runs.seconds), best)
    return [median, milliseconds(runs.worst_seconds) if runs.settled else NO_ANSWER]


def _cost_cell(runs: SeedRuns, cost: str, best: bool) -> str:
    if any(not result.valid for result in runs.results):
        return "invalid"
    if not runs.settled:
        return f"{NO_ANSWER} ({runs.limit:g} s)"
    return f"* {cost}" if best else cost


def _total_row(rows: Sequence[ProofRow], blanks: int, name: str = "all") -> list[str]:
    ours = [row.ours for row in rows]
    cells = _total_cells(ours)
    for theirs in zip(*(row.theirs for row in rows), strict=True):
        cells += [*_total_cells(theirs), _ratio(theirs, ours)]
    return [name, *[""] * blanks, *cells]


def _total_of_proven(rows: Sequence[ProofRow], blanks: int) -> list[list[str]]:
    proven = [row for row in rows if row.ours.settled]
    return [_total_row(proven, blanks, f"{len(proven)} proven")] if proven else []


def _total_cells(runs: Sequence[SeedRuns]) -> list[str]:
    settled = all(run.settled for run in runs)
    return [
        _bounded(milliseconds(sum(run.seconds for run in runs)), settled),
        _bounded(milliseconds(sum(run.worst_seconds for run in runs)), settled),
    ]


def _bounded(cost: str, settled: bool) -> str:
    return cost if settled else f">{cost}"


def _ratio(theirs: Sequence[SeedRuns], ours: Sequence[SeedRuns]) -> str:
    value = sum(run.seconds for run in theirs) / sum(run.seconds for run in ours)
    match (all(run.settled for run in theirs), all(run.settled for run in ours)):
        case (True, True):
            return times(value)
        case (False, True):
            return f">{times(value)}"
        case (True, False):
            return f"<{times(value)}"
    return NO_ANSWER


def _effort_row(row: ProofRow) -> list[str]:
    nodes = [_nodes(result) for result in row.ours.results]
    rates = [
        count / run.seconds for count, run in zip(nodes, row.ours.by_seed, strict=True) if count
    ]
    return [
        row.question.label,
        _whole(statistics.median(nodes)),
        _whole(statistics.median(rates)) if rates else NO_ANSWER,
        _orders(row.ours),
    ]


def _orders(runs: SeedRuns) -> str:
    found = Counter(str(result.statistics.get("order") or NO_ANSWER) for result in runs.results)
    if len(found) == 1:
        return next(iter(found))
    return "; ".join(f"{order} ({count} seeds)" for order, count in found.most_common())


def _counters(result: Result) -> dict[str, int]:
    return {name: value for name, value in result.statistics.items() if type(value) is int}


def _nodes(result: Result) -> int:
    return _counters(result).get("nodes", 0)


def _whole(count: float) -> str:
    return f"{count:,.0f}"
