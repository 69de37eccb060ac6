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
from planners.model.plan import Plan, Result, Status, gap_above
from planners.referee.fast import find_violation_fast
from planners.text.byte_units import exact_bytes

# The folder beside a catalogue for the plans of planners that are not of Gapless.
PLANS = "plans"

# Bytes of a peak, and the planner of the plan.
Peak = tuple[int, str]
Word = Literal["improves", "equals", "misses", "refused"]


@dataclass(frozen=True)
class LineVerdict:
    """The verdict on one line of a results file."""

    found: FoundPlan
    word: Word
    # The best known plan, with which this one was compared; or why this one is refused.
    reason: str

    def __str__(self) -> str:
        plan = f"{exact_bytes(self.found.peak)} bytes by {self.found.planner}"
        return f"line {self.found.line}: {self.found.instance}: {self.word}: {plan}; {self.reason}"


def judge_results(
    results: Sequence[FoundPlan], entries: Mapping[str, CatalogueEntry], folders: list[Path]
) -> list[LineVerdict]:
    """Judge the lines of a results file against the catalogue and against each other.

    The referee judges every plan. A line is refused if its plan is invalid, or if its claimed bound
    is above the peak of a valid plan, be it of the catalogue or of this file. A bound that no plan
    refutes is still no proof, and is not recorded. A line of an unknown instance is an error.
    """
    by_instance: dict[str, list[FoundPlan]] = {}
    for found in results:
        name, digest, line = found.instance, found.digest, f"line {found.line}"
        if name not in entries:
            raise InstanceError(
                f"{line}: no instance is called {name!r}; {near_names(name, entries)}"
            )
        if digest != entries[name].facts.digest:
            needed = f"{entries[name].facts.digest} is needed, which {name} has"
            raise InstanceError(f"{line}, field digest: {needed}, found {digest}")
        by_instance.setdefault(found.instance, []).append(found)
    verdicts: list[LineVerdict] = []
    for name, its in by_instance.items():
        problem = read_recorded(entries[name], folders)
        # A file that many lines name is judged once.
        fault_of: dict[tuple[int, int], str | None] = {}
        for found in its:
            key = id(found.offsets), found.peak
            if key not in fault_of:
                fault_of[key] = find_violation_fast(problem, Plan(found.offsets, found.peak))
        faults = [fault_of[id(found.offsets), found.peak] for found in its]
        best = entries[name].best
        valid = [found for found, fault in zip(its, faults, strict=True) if fault is None]
        lowest = min([(best.peak, best.planner), *((each.peak, each.planner) for each in valid)])
        verdicts += [
            _verdict(found, fault, best, lowest) for found, fault in zip(its, faults, strict=True)
        ]
    return sorted(verdicts, key=lambda verdict: verdict.found.line)


def record_improvements(
    verdicts: Iterable[LineVerdict],
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


def _verdict(found: FoundPlan, fault: str | None, best: Best, lowest: Peak) -> LineVerdict:
    """Return the verdict on a plan that has this fault, beside the lowest valid plan."""
    bound = exact_bytes(found.lower_bound)
    if fault is not None:
        return LineVerdict(found, "refused", fault)
    if found.lower_bound > lowest[0]:
        reason = (
            f"the claimed bound of {bound} bytes is above the peak of {lowest[1]}'s valid plan, "
            f"{exact_bytes(lowest[0])}"
        )
        return LineVerdict(found, "refused", reason)
    if found.peak < best.lower_bound:
        reason = (
            f"the plan is valid and below the recorded bound {best.certificate}, "
            f"{exact_bytes(best.lower_bound)}; the record is wrong: please report it"
        )
        return LineVerdict(found, "refused", reason)
    gap = gap_above(found.peak, best.lower_bound) or 0.0
    reason = (
        f"the best known plan has {exact_bytes(best.peak)}, by {best.planner}; "
        f"{percent(gap)} above the best bound"
    )
    if found.lower_bound > best.lower_bound:
        reason += f"; the claimed bound of {bound} is not recorded, as a claim proves nothing"
    is_equal = found.peak == best.peak
    word: Word = "equals" if is_equal else "improves" if found.peak < best.peak else "misses"
    return LineVerdict(found, word, reason)
