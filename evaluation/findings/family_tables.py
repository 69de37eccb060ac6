"""How far each planner is from the optimum, family by family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median

from evaluation.findings.studied_instances import StudiedInstance, by_family, studied_instances
from evaluation.report.gap_tables import NOTHING, cell
from evaluation.report.slots import PageMaterial, markdown_of, slot
from evaluation.study.gaps import Gaps
from evaluation.study.record import RunStatus
from planners.compare.report import percent
from planners.text.table import Row, Table, columns_of


@dataclass(frozen=True)
class PlannerOnFamily:
    """What one planner made of the instances of one family that it was run on."""

    runs: int
    # Instances of the family.
    instances: int
    proven: int
    # Of its plans.
    gaps: Sequence[Gaps]

    @property
    def is_complete(self) -> bool:
        """Whether it has a plan of every instance, so that its gaps compare."""
        return len(self.gaps) == self.instances

    def to_bound(self) -> list[float]:
        return [gaps.to_bound for gaps in self.gaps if gaps.to_bound is not None]

    def to_optimum(self) -> list[float]:
        return [gaps.to_optimum for gaps in self.gaps if gaps.to_optimum is not None]

    def to_best(self) -> list[float]:
        return [gaps.to_best for gaps in self.gaps if gaps.to_best is not None]


OnFamily = Mapping[str, PlannerOnFamily]


@slot("family-table")
def _family_table(material: PageMaterial) -> str:
    return markdown_of(family_table(studied_instances(material)))


@slot("planner-family-table")
def _planner_family_table(material: PageMaterial) -> str:
    return markdown_of(planner_family_table(studied_instances(material)))


@slot("family-planner-tables")
def _family_planner_tables(material: PageMaterial) -> str:
    families = by_family(studied_instances(material))
    tables = [
        f"### {cell(family)}\n\n{markdown_of(planner_table(on_family(its)))}"
        for family, its in families.items()
    ]
    return "\n\n".join(tables)


def family_table(instances: Sequence[StudiedInstance]) -> Table:
    """Return a line a family: how many optima are known, and what is left of the others."""
    rows = []
    for family, its in by_family(instances).items():
        tensors = [each.facts.tensors for each in its]
        solved = sum(each.is_solved for each in its)
        is_open = sum(each.is_open for each in its)
        left = [each.gap_left for each in its if each.gap_left is not None]
        rows.append(
            Row((
                cell(family), f"{len(its):,}", f"{min(tensors):,} to {max(tensors):,}",
                f"{solved:,}", f"{len(its) - solved - is_open:,}", f"{is_open:,}",
                *_median_and_most(left),
            ))
        )  # fmt: skip
    headings = ("instances", "tensors", "solved", "known, not reached", "open",
                "best plan to bound, median", "worst")  # fmt: skip
    return Table(columns_of("family", *headings), rows)


def planner_family_table(instances: Sequence[StudiedInstance]) -> Table:
    """Return a line a planner and a column a family: its gaps to the bound, median and worst.

    Where it has no plan of some, its number of plans. The best of a column is in bold.
    """
    families = {family: on_family(its) for family, its in by_family(instances).items()}
    planners = dict.fromkeys(planner for its in families.values() for planner in its)
    columns = {family: _gap_column(its) for family, its in families.items()}
    rows = [
        Row((cell(planner), *(columns[family].get(planner, NOTHING) for family in families)))
        for planner in sorted(planners, key=lambda planner: _rank(planner, families))
    ]
    return Table(columns_of("planner", *map(cell, families)), rows)


def planner_table(found: OnFamily) -> Table:
    """Return a line for each planner on a family, the smallest median gap to the best first."""
    order = sorted(found, key=lambda planner: _rank(planner, {"": found}))
    rows = []
    for planner in order:
        its = found[planner]
        cells = (
            cell(planner), f"{its.runs:,}", f"{len(its.gaps):,}",
            f"{100 * its.proven / its.runs:.0f} %",
            *_median_and_most(its.to_bound()), *_median_and_most(its.to_optimum()),
            *_median_and_most(its.to_best()),
        )  # fmt: skip
        is_best = _rank(planner, {"": found}) == _rank(order[0], {"": found})
        rows.append(Row.best(cells) if is_best else Row(cells))
    headings = ("instances", "plans", "proven", "to bound, median", "worst",
                "to optimum, median", "worst", "to best, median", "worst")  # fmt: skip
    return Table(columns_of("planner", *headings), rows)


def on_family(instances: Sequence[StudiedInstance]) -> dict[str, PlannerOnFamily]:
    """Return what each planner made of the instances of a family, by its label."""
    runs: dict[str, int] = {}
    proven: dict[str, int] = {}
    gaps: dict[str, list[Gaps]] = {}
    for instance in instances:
        for case in instance.cases:
            label = case.label
            runs[label] = runs.get(label, 0) + 1
            proven[label] = proven.get(label, 0) + (case.status is RunStatus.OPTIMAL)
            gaps.setdefault(label, [])
            if case.peak is not None:
                gaps[label].append(instance.gaps(case))
    return {
        label: PlannerOnFamily(runs[label], len(instances), proven[label], gaps[label])
        for label in runs
    }


def _gap_column(found: OnFamily) -> dict[str, str]:
    complete = [planner for planner, its in found.items() if its.is_complete and its.to_bound()]
    least = min((_middle_and_most(found[planner]) for planner in complete), default=None)
    column = {}
    for planner, its in found.items():
        if planner not in complete:
            column[planner] = f"{len(its.gaps):,} of {its.instances:,}"
            continue
        middle, most = _middle_and_most(its)
        text = f"{percent(middle)} ({percent(most)})"
        column[planner] = f"**{text}**" if (middle, most) == least else text
    return column


def _middle_and_most(its: PlannerOnFamily) -> tuple[float, float]:
    gaps = its.to_bound()
    return median(gaps), max(gaps)


def _rank(planner: str, families: Mapping[str, OnFamily]) -> tuple[float, float, float]:
    """Return what sorts planners: those with plans of all they ran on, by gaps to the best."""
    its = [found[planner] for found in families.values() if planner in found]
    missing = sum(not each.is_complete for each in its)
    gaps = [each.to_best() for each in its if each.to_best()]
    if not gaps:
        return missing, float("inf"), float("inf")
    return missing, mean(map(median, gaps)), mean(map(mean, gaps))


def _median_and_most(gaps: Sequence[float]) -> tuple[str, str]:
    return (percent(median(gaps)), percent(max(gaps))) if gaps else (NOTHING, NOTHING)
