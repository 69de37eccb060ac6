"""Judge a results file: which best known plans it improves, equals or misses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from instances.benchmark.results_file import FoundPlan
from instances.catalogue.catalogue_entry import Best, CatalogueEntry
from instances.catalogue.instance_folders import read_recorded
from instances.catalogue.update import merge
from planners.compare.report import percent
from planners.errors import InstanceError, near_names
from planners.files.plan_file import write_plan
from planners.model.plan import Plan, Result, Status
from planners.referee.fast import find_violation_fast
from planners.text.byte_units import exact_bytes

# The folder beside a catalogue for the plans of planners that are not of Gapless.
PLANS = "plans"

# Bytes of a peak, and the planner of the plan.
Peak = tuple[int, str]


@dataclass(frozen=True)
class Verdict:
    """The verdict on one line of a results file."""

    found: FoundPlan
    word: Literal["improves", "equals", "misses", "refused"]
    # What stands against the plan: the best known plan, or the reason of a refusal.
    reason: str

    def __str__(self) -> str:
        plan = f"{exact_bytes(self.found.peak)} bytes by {self.found.planner}"
        return f"line {self.found.line}: {self.found.instance}: {self.word}: {plan}; {self.reason}"


def judge_results(
    results: Sequence[FoundPlan], entries: Mapping[str, CatalogueEntry], folders: list[Path]
) -> list[Verdict]:
    """Judge the lines of a results file against the catalogue and against each other.

    The referee judges every plan. A line is refused if its plan is invalid, or if its claimed bound
    is above the peak of a valid plan, be it of the catalogue or of this file. A bound that no plan
    refutes is still no proof, and is not recorded.

    Raises
    ------
    InstanceError
        A line names an unknown instance or another digest, or the file of an instance is not here.
    """
    by_instance: dict[str, list[FoundPlan]] = {}
    for found in results:
        _require_known(found, entries)
        by_instance.setdefault(found.instance, []).append(found)
    verdicts: list[Verdict] = []
    for name, its in by_instance.items():
        problem = read_recorded(entries[name], folders)
        faults = [find_violation_fast(problem, Plan(found.offsets, found.peak)) for found in its]
        best = entries[name].best
        lowest = min(
            (best.peak, best.planner),
            *(
                (found.peak, found.planner)
                for found, fault in zip(its, faults, strict=True)
                if fault is None
            ),
        )
        for found, fault in zip(its, faults, strict=True):
            reason = fault or _refuted(found, best, lowest)
            verdicts.append(Verdict(found, "refused", reason) if reason else _compared(found, best))
    return sorted(verdicts, key=lambda verdict: verdict.found.line)


def record_improvements(
    verdicts: Iterable[Verdict],
    entries: dict[str, CatalogueEntry],
    folders: list[Path],
    target: Path,
) -> None:
    """Make the improving plans the best known ones, and write them into the target folder."""
    for verdict in verdicts:
        found, entry = verdict.found, entries[verdict.found.instance]
        if verdict.word != "improves" or found.peak >= entry.best.peak:
            continue
        theirs = replace(entry.best, peak=found.peak, planner=found.planner, version="", commit="")
        best = merge(entry.best, theirs)
        entries[found.instance] = replace(entry, best=best)
        plan = Result(
            Status(best.status), Plan(found.offsets, found.peak), best.lower_bound,
            best.certificate, planner=found.planner,
        )  # fmt: skip
        target.mkdir(exist_ok=True)
        write_plan(read_recorded(entry, folders), plan, target / f"{entry.name}.json.gz")


def _require_known(found: FoundPlan, entries: Mapping[str, CatalogueEntry]) -> None:
    if found.instance not in entries:
        near = near_names(found.instance, entries)
        raise InstanceError(f"line {found.line}: no instance is called {found.instance!r}; {near}")
    digest = entries[found.instance].facts.digest
    if found.digest != digest:
        raise InstanceError(
            f"line {found.line}, field digest: {digest} is needed, which {found.instance} has, "
            f"found {found.digest}"
        )


def _refuted(found: FoundPlan, best: Best, lowest: Peak) -> str:
    """Return what refutes a line whose plan is valid; empty if nothing does."""
    if found.lower_bound > lowest[0]:
        return (
            f"the claimed bound of {exact_bytes(found.lower_bound)} bytes is above the peak of "
            f"{lowest[1]}'s valid plan, {exact_bytes(lowest[0])}"
        )
    if found.peak < best.lower_bound:
        return (
            f"the plan is valid and below the recorded bound {best.certificate}, "
            f"{exact_bytes(best.lower_bound)}; the record is wrong: please report it"
        )
    return ""


def _compared(found: FoundPlan, best: Best) -> Verdict:
    difference = found.peak - best.peak
    word: Literal["improves", "equals", "misses"]
    word = "improves" if difference < 0 else "misses" if difference else "equals"
    gap = found.peak / max(1, best.lower_bound) - 1 if found.peak > best.lower_bound else 0.0
    reason = (
        f"the best known plan has {exact_bytes(best.peak)}, by {best.planner}; "
        f"{percent(gap)} above the best bound"
    )
    if found.lower_bound > best.lower_bound:
        claimed = exact_bytes(found.lower_bound)
        reason += f"; the claimed bound of {claimed} is not recorded, as a claim proves nothing"
    return Verdict(found, word, reason)
