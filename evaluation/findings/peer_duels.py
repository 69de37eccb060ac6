"""The slot `peer-duels`: a planner of ours against one of another package, instance by instance."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from evaluation.findings.cost_of_planning import (
    Measure,
    is_of,
    planning_bytes,
    planning_seconds,
    values_of,
)
from evaluation.report.cases import Case
from evaluation.report.gap_tables import NOTHING, by_instance, cell
from evaluation.report.slots import PageMaterial, slot
from planners.errors import GaplessError
from planners.text.byte_units import three_digits
from planners.text.table import Row, Table, columns_of

# What added no page of memory counts as one, so that there is a ratio.
PAGE_BYTES = 4096
MIB = 1 << 20
SEED = re.compile(r":seed=\d+$")


@dataclass(frozen=True)
class Duel:
    """Our planner and theirs on one instance."""

    # Without its seed.
    label: str
    tensors: int
    ours: Case
    theirs: Case

    @property
    def comparison(self) -> str:
        """What our peak is beside theirs."""
        if self.ours.peak is None or self.theirs.peak is None:
            return "missing" if self.ours.peak is None else "alone"
        if self.ours.peak == self.theirs.peak:
            return "equal"
        return "lower" if self.ours.peak < self.theirs.peak else "higher"


@slot("peer-duels")
def _peer_duels(material: PageMaterial) -> str:
    words = material.words.get("duel", {})
    if not {"ours", "theirs"} <= words.keys():
        raise GaplessError(
            f"study {material.name}: [page.duel] needs `ours` and `theirs`, found "
            f"{', '.join(words) or 'nothing'}"
        )
    by_label: dict[str, list[Duel]] = {}
    for duel in duels_of(material.cases, words["ours"], words["theirs"]):
        by_label.setdefault(duel.label, []).append(duel)
    headings = ("instance", "seeds", "tensors", "ours (ms)", "worst", "theirs (ms)", "worst",
                "time ratio", "least", "ours (MiB)", "theirs (MiB)", "memory ratio", "least",
                "our peak is")  # fmt: skip
    rows = [Row(_cells(duels)) for duels in by_label.values()]
    return Table(columns_of(*headings), rows).markdown() if rows else ""


def duels_of(cases: Sequence[Case], ours: str, theirs: str) -> list[Duel]:
    """Return a duel for each instance on which both planners were run."""
    duels = []
    for its in by_instance(cases).values():
        mine = next((case for case in its if is_of(case.records[0], ours)), None)
        other = next((case for case in its if is_of(case.records[0], theirs)), None)
        if mine is not None and other is not None:
            facts = mine.facts
            duels.append(Duel(SEED.sub("", facts.instance), facts.tensors, mine, other))
    return duels


def time_ratios(duels: Sequence[Duel]) -> tuple[float, float] | None:
    """Return theirs over ours: the median of medians, and our slowest run with their fastest."""
    return _ratios(duels, planning_seconds)


def memory_ratios(duels: Sequence[Duel]) -> tuple[float, float] | None:
    """Return the same of memory."""
    return _ratios(duels, planning_bytes, PAGE_BYTES)


def _ratios(
    duels: Sequence[Duel], measure: Measure, at_least: float = 0.0
) -> tuple[float, float] | None:
    middle, least = [], []
    for duel in duels:
        ours = values_of(duel.ours.records, measure)
        theirs = values_of(duel.theirs.records, measure)
        if ours and theirs and max(*ours, at_least) > 0:
            middle.append(median(theirs) / max(median(ours), at_least))
            least.append(min(theirs) / max(*ours, at_least))
    return (median(middle), min(least)) if middle else None


def _cells(duels: Sequence[Duel]) -> list[str]:
    ours, theirs = [duel.ours for duel in duels], [duel.theirs for duel in duels]
    peaks = Counter(duel.comparison for duel in duels)
    compared = [f"{word} on {count}" for word, count in peaks.items()]
    return [
        cell(duels[0].label), str(len(duels)), f"{duels[0].tensors:,}",
        *_middle_and_worst(ours), *_middle_and_worst(theirs), *_times(time_ratios(duels)),
        _middle(ours, planning_bytes, MIB), _middle(theirs, planning_bytes, MIB),
        *_times(memory_ratios(duels)),
        next(iter(peaks)) if len(peaks) == 1 else ", ".join(compared),
    ]  # fmt: skip


def _middle_and_worst(cases: Sequence[Case]) -> tuple[str, str]:
    all_runs = [value for case in cases for value in values_of(case.records, planning_seconds)]
    worst = three_digits(1e3 * max(all_runs)) if all_runs else NOTHING
    return _middle(cases, planning_seconds, 1e-3), worst


def _middle(cases: Sequence[Case], measure: Measure, unit: float) -> str:
    """Return the median over instances of the median of the runs on each."""
    known = [values for case in cases if (values := values_of(case.records, measure))]
    return three_digits(median(map(median, known)) / unit) if known else NOTHING


def _times(ratios: tuple[float, float] | None) -> tuple[str, str]:
    return (NOTHING, NOTHING) if ratios is None else (f"{ratios[0]:.1f}x", f"{ratios[1]:.1f}x")
