"""The instances of a study with what the catalogue knows of them: family, shape, optimum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from evaluation.report.cases import Case
from evaluation.report.gap_tables import by_instance
from evaluation.report.slots import PageMaterial
from evaluation.study.gaps import ContradictionError, Gaps, InstanceFacts, gaps_of_peak
from instances.catalogue.catalogue_entry import CatalogueEntry
from instances.catalogue.catalogue_file import read_catalogue
from planners.errors import InstanceError
from planners.text.byte_units import exact_bytes
from planners.text.plain_text import shown

# In the table ``page`` of a study: up to so many tensors an instance is small.
SMALL = "small_tensors"
# Of instances that are neither of the catalogue nor generated.
OF_FILES = "files"


@dataclass(frozen=True)
class StudiedInstance:
    """One instance, and what every planner made of it."""

    # With the optimum of its construction where no run proved one.
    facts: InstanceFacts
    # Where the catalogue has it.
    entry: CatalogueEntry | None
    family: str
    cases: Sequence[Case]

    @property
    def is_solved(self) -> bool:
        """Whether the best plan is optimal, by a proof of some run or by construction."""
        return self.facts.optimum is not None and self.facts.best_known == self.facts.optimum

    @property
    def is_open(self) -> bool:
        """Whether nobody knows the optimum."""
        return self.facts.optimum is None

    @property
    def gap_left(self) -> float | None:
        """How far the best plan is above the best bound."""
        if self.facts.best_known is None:
            return None
        return gaps_of_peak(self.facts.best_known, self.facts).to_bound

    def gaps(self, case: Case) -> Gaps:
        """Return the gaps of one of the cases; none where it has no plan."""
        return Gaps(None, None, None) if case.peak is None else gaps_of_peak(case.peak, self.facts)

    def best_of(self, prefix: str) -> Case | None:
        """Return the case with the smallest peak among planners of a prefix, the first of equals.

        None where none of them has a plan.
        """
        its = [case for case in self.cases if case.records[0].planner.startswith(prefix)]
        planned = [case for case in its if case.peak is not None]
        return min(planned, key=lambda case: case.peak or 0, default=None)


def studied_instances(material: PageMaterial) -> list[StudiedInstance]:
    """Return the instances of a study, those of a family together, small ones first.

    Raises
    ------
    ContradictionError
        A plan is below the optimum that the catalogue has.
    """
    entries = {entry.facts.digest: entry for entry in read_catalogue().values()}
    found = []
    for digest, cases in by_instance(material.cases).items():
        entry, facts = entries.get(digest), cases[0].facts
        kind = entry.kind if entry is not None else facts.family or OF_FILES
        found.append(StudiedInstance(_with_optimum(facts, entry), entry, kind, cases))
    order = list(dict.fromkeys(its.family for its in found))
    small = _small_tensors(material)
    found.sort(key=lambda its: (order.index(its.family), not _is_small(its, small)))
    return _told_by_size(found, small)


def by_family(instances: Sequence[StudiedInstance]) -> dict[str, list[StudiedInstance]]:
    """Return the instances of each family."""
    grouped: dict[str, list[StudiedInstance]] = {}
    for instance in instances:
        grouped.setdefault(instance.family, []).append(instance)
    return grouped


def _with_optimum(facts: InstanceFacts, entry: CatalogueEntry | None) -> InstanceFacts:
    optimum = None if entry is None else entry.facts.optimum
    if optimum is None:
        return facts
    if facts.best_known is not None and facts.best_known < optimum:
        raise ContradictionError(
            f"instance {facts.instance}: no plan is below the optimum of the catalogue, "
            f"{exact_bytes(optimum)}, found one of {exact_bytes(facts.best_known)} by "
            f"{facts.best_planner}"
        )
    return replace(facts, optimum=optimum)


def _is_small(its: StudiedInstance, small: int | None) -> bool:
    return small is None or its.facts.tensors <= small


def _told_by_size(instances: Sequence[StudiedInstance], small: int | None) -> list[StudiedInstance]:
    """Return instances whose family says the size as well, where it has some of both."""
    sizes: dict[str, set[bool]] = {}
    for its in instances:
        sizes.setdefault(its.family, set()).add(_is_small(its, small))
    return [
        replace(its, family=f"{its.family}, {'small' if _is_small(its, small) else 'large'}")
        if len(sizes[its.family]) > 1
        else its
        for its in instances
    ]


def _small_tensors(material: PageMaterial) -> int | None:
    small = material.words.get(SMALL)
    if small is not None and (type(small) is not int or small < 0):
        raise InstanceError(
            f"page.{SMALL}: a whole number of at least 0 is needed, found {shown(small)}"
        )
    return small
