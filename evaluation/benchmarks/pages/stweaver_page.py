"""Mixtures of experts under STWeaver, part by part, beside every other online allocator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from evaluation.benchmarks.cases.routed_mixture import RoutedMixture
from evaluation.benchmarks.published.stweaver_figures import (
    ADDED_BY_REUSE,
    FRAGMENTATION,
    STATIC_REDUCTION,
    STATIC_SHARE,
    TABLE_3,
)
from evaluation.benchmarks.writing.figure import Figure, efficiency
from evaluation.benchmarks.writing.page import Page
from gpu_runtime.replaying.stweaver_replay import Served, StweaverReplay, replay_stweaver
from instances.traces.trace_requests import requests_of_trace
from planners.command_line.progress_line import show_progress
from planners.errors import GaplessError
from planners.files.formats import read_requests
from planners.model.online_result import OnlineResult, OnlineTerms
from planners.model.request_sequence import RequestSequence
from planners.online.online_run import OnlineRun, run_online
from planners.registry import choose_online
from planners.text.byte_units import counted

PLANNER, TIME_LIMIT = "homosize", 3.0
BYTES_PER_GIB = 1 << 30
WHOLE = "stweaver"


@dataclass(frozen=True, eq=False)
class MixtureRun:
    """A run under every online allocator, and under STWeaver without its parts."""

    online: OnlineRun
    without_reuse: StweaverReplay
    whole: StweaverReplay

    @property
    def name(self) -> str:
        """Of the run."""
        return self.online.requests.name

    @cached_property
    def results(self) -> dict[str, OnlineResult]:
        """The result of each allocator."""
        found: dict[str, OnlineResult] = {}
        for row in self.online.rows:
            if row.result is None or row.reason:
                raise GaplessError(f"{self.name}, {row.label}: {row.reason}; no page is written")
            found[row.label] = row.result
        return found

    @property
    def caching(self) -> OnlineResult:
        """Caching alone."""
        return self.results["pytorch-caching"]

    @property
    def static_reduction(self) -> float:
        """Share of caching's fragmentation that the static plan takes away."""
        return 1 - self.without_reuse.result.fragmentation / self.caching.fragmentation

    @property
    def reduction(self) -> float:
        """Share of caching's fragmentation that all of STWeaver takes away."""
        return 1 - self.whole.result.fragmentation / self.caching.fragmentation

    @property
    def added_by_reuse(self) -> float:
        """Share of the fragmentation under a static plan that reuse takes away."""
        return 1 - self.whole.result.fragmentation / self.without_reuse.result.fragmentation


@dataclass(frozen=True)
class Claim:
    """What somebody published, and whether a run says so."""

    text: str
    published: str
    # What stands against each other in a run, and whether the claim holds there.
    judged: Callable[[MixtureRun], tuple[str, bool]]


def stweaver_page(files: Sequence[Path], command: str, mixtures: Sequence[RoutedMixture]) -> Page:
    """Replay mixtures that are traced here, and recorded ones."""
    if not files and not mixtures:
        raise GaplessError("stweaver: at least one recording or traced mixture is needed")
    page = Page("STWeaver on mixtures of experts", command)
    page.say(
        "Every request of a run, made to STWeaver as its paper describes it (Huang et al. 2026, "
        "sections 5.2 and 6): a static pool planned ahead by `homosize`, dynamic requests by best "
        "fit into bytes of the pool that stay idle while their layers run, the rest by PyTorch's "
        "caching allocator. The first two iterations are profiled; the figures are peaks of the "
        "whole run, made again under the plan. `planned` has no run before, and learns in this "
        "one. All is counted and nothing timed. [What STWeaver is taken to "
        "know](../replaying.md#stweaver)."
    )
    sources: list[Callable[[], RequestSequence]] = [partial(read_requests, path) for path in files]
    sources += [partial(_traced, mixture) for mixture in mixtures]
    runs = [_replayed(read()) for read in sources]
    page.say(
        "Runs called N and R, without and with recomputation, are training loops of Qwen2-MoE "
        "traced without a GPU, whose experts get numbers of tokens that are drawn for every "
        "microbatch, even ones or uneven ones. " + " ".join(_counts(run) for run in runs)
    )
    _add_composition(page, runs)
    _add_parts(page, runs)
    _add_allocators(page, runs)
    _add_claims(page, runs)
    return page


def _traced(mixture: RoutedMixture) -> RequestSequence:
    show_progress(f"{mixture.name}: tracing")
    return requests_of_trace(mixture.trace())


def _replayed(requests: RequestSequence) -> MixtureRun:
    show_progress(f"{requests.name}: replaying")
    terms = OnlineTerms()
    online = run_online(requests, choose_online("*"), terms)
    if online.left_out:
        raise KeyboardInterrupt
    without_reuse, whole = (
        replay_stweaver(requests, terms, PLANNER, TIME_LIMIT, reuse=reuse)
        for reuse in (False, True)
    )
    return MixtureRun(online, without_reuse, whole)


def _counts(run: MixtureRun) -> str:
    displaced = int((run.whole.served == Served.DISPLACED).sum())
    return (
        f"{run.name}: {counted(len(run.whole.served), 'request')}, of which "
        f"{displaced:,} found another one in their planned place and were served by caching."
    )


def _add_composition(page: Page, runs: Sequence[MixtureRun]) -> None:
    page.say("## Composition (Table 3)")
    page.say(
        "GiB here, GB in the paper. *Total* is the most that lived at once, and behind it what of "
        "that was static and dynamic. *Pool* is the static plan's, *fallback* the most that the "
        "caching allocator reserved beside it. Their peaks may be at different times."
    )
    rows = [_composition(run) for run in runs]
    rows += [
        [f"the paper, {its.setting}", f"{its.total:.2f}", "-", "-", f"{its.static:.2f}",
         f"{its.fallback_without_reuse:.2f}", f"{its.fallback:.2f}"]
        for its in TABLE_3
    ]  # fmt: skip
    page.table(
        ["run", "total", "static", "dynamic", "pool", "fallback without reuse", "with reuse"], rows
    )


def _composition(run: MixtureRun) -> list[str]:
    requests, served = run.online.requests, run.whole.served
    is_static = (served == Served.PLANNED) | (served == Served.DISPLACED)
    live = requests.live_bytes(requests.size)
    static = requests.live_bytes(np.where(is_static, requests.size, 0))
    peak = int(live.argmax())
    return [
        run.name,
        *(
            _gib(count)
            for count in (
                int(live[peak]), int(static[peak]), int(live[peak] - static[peak]),
                run.whole.pool_bytes, _fallback(run.without_reuse), _fallback(run.whole),
            )
        ),
    ]  # fmt: skip


def _fallback(replay: StweaverReplay) -> int:
    return replay.result.reserved_peak - replay.pool_bytes


def _add_parts(page: Page, runs: Sequence[MixtureRun]) -> None:
    page.say("## Part by part (section 8.4)")
    page.say(
        "Fragmentation is 1 - allocated / reserved. *Reduction* is against caching alone, *added* "
        "against the static plan alone, *share* how much of the whole reduction the static plan "
        "has."
    )
    rows: list[list[str]] = [
        [
            run.name,
            *(f"{its.fragmentation:.2%}" for its in (
                run.caching, run.without_reuse.result, run.whole.result)),
            f"{run.static_reduction:.1%}", f"{run.reduction:.1%}",
            f"{run.static_reduction / run.reduction:.1%}", f"{run.added_by_reuse:.1%}",
        ]
        for run in runs
    ]  # fmt: skip
    rows.append(
        ["the paper", "-", "-", "-", f"{STATIC_REDUCTION:.1%}",
         f"{STATIC_REDUCTION / STATIC_SHARE:.1%}", f"{STATIC_SHARE:.1%}", f"{ADDED_BY_REUSE:.1%}"]
    )  # fmt: skip
    page.table(
        ["run", "caching alone", "static plan", "with reuse", "reduction, static plan",
         "reduction, with reuse", "share", "added"],
        rows,
    )  # fmt: skip


def _add_allocators(page: Page, runs: Sequence[MixtureRun]) -> None:
    page.say("## Beside the others")
    page.say("Peaks in GiB; efficiency is allocated / reserved, the least reserved in bold.")
    for run in runs:
        page.say(f"### {run.name}")
        page.table(
            ["allocator", "reserved", "allocated", "efficiency", "device calls"],
            [_cells(run, label) for label in run.results],
        )


def _cells(run: MixtureRun, label: str) -> list[str | Figure]:
    result = run.results[label]
    least = min(its.reserved_peak for its in run.results.values())
    reserved = _gib(result.reserved_peak)
    return [
        label,
        f"**{reserved}**" if result.reserved_peak == least else reserved,
        _gib(result.allocated_peak),
        efficiency(result.allocated_peak, result.reserved_peak),
        f"{result.call_count:,}",
    ]


def _add_claims(page: Page, runs: Sequence[MixtureRun]) -> None:
    page.say("## What is said, and what comes out")
    page.say("Reserved GiB unless a share; the first is to be the smaller one.")
    rows = []
    for claim in CLAIMS:
        verdicts = [claim.judged(run) for run in runs]
        holds = sum(is_so for _, is_so in verdicts)
        rows.append(
            [claim.text, claim.published, *(text for text, _ in verdicts),
             f"{holds} of {len(runs)}"]
        )  # fmt: skip
    page.table(["claim", "published", *(run.name for run in runs), "holds"], rows)


def _reserves_less(first: str, second: str) -> Callable[[MixtureRun], tuple[str, bool]]:
    def judged(run: MixtureRun) -> tuple[str, bool]:
        ours, theirs = (run.results[label].reserved_peak for label in (first, second))
        return f"{_gib(ours)}, {_gib(theirs)}", ours < theirs

    return judged


def _static_first(run: MixtureRun) -> tuple[str, bool]:
    share = run.static_reduction / run.reduction
    return f"{share:.1%}", share > 1 / 2


def _reuse_lowers(run: MixtureRun) -> tuple[str, bool]:
    reused, alone = _fallback(run.whole), _fallback(run.without_reuse)
    return f"{_gib(reused)}, {_gib(alone)}", reused < alone


def _paper(first: str, second: str) -> str:
    return f"{FRAGMENTATION[first]:.1%}, {FRAGMENTATION[second]:.1%} of fragmentation"


CLAIMS = (
    Claim("expandable segments beat STAlloc, as STWeaver was called, on a mixture of experts",
          "26.97, 31.88 GB", _reserves_less("pytorch-expandable", WHOLE)),
    Claim("STWeaver beats expandable segments",
          _paper(WHOLE, "pytorch-expandable"), _reserves_less(WHOLE, "pytorch-expandable")),
    Claim("caching beats GMLake",
          _paper("pytorch-caching", "gmlake"), _reserves_less("pytorch-caching", "gmlake")),
    Claim("STWeaver beats caching",
          _paper(WHOLE, "pytorch-caching"), _reserves_less(WHOLE, "pytorch-caching")),
    Claim("reuse lowers what falls back to caching",
          "15.19, 15.19 GB (N); 1.12, 1.61 GB (R)", _reuse_lowers),
    Claim("most of the reduction is the static plan's", f"{STATIC_SHARE:.0%}", _static_first),
    Claim("`planned` beats STWeaver", "-", _reserves_less("planned", WHOLE)),
)  # fmt: skip


def _gib(count: int) -> str:
    return f"{count / BYTES_PER_GIB:.3f}"
