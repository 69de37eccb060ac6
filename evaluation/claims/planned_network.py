"""A network with the plans that several planners made of it, of a paper or of records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean, median

from evaluation.claims.paper_networks import (
    LARGE_NETWORKS,
    PAPER_NETWORKS,
    PAPER_PLANNERS,
    LargeNetwork,
    PaperNetwork,
)
from evaluation.claims.safety import milliseconds_of, safety_runs
from evaluation.study.record import ANSWERED, Record
from instances.catalogue.catalogue_file import read_catalogue

GB = 1e9
LIFETIME = "lifetime"
NAIVE = "naive"
# The framework that asks at run time, for one tensor after the other.
FRAMEWORK = "pytorch-caching"
# Of the paper's larger networks it prints the best plan alone, and not whose it is.
SOME_PLANNER = "best"
# Merges each chain into one tensor, from the study's own file.
MERGED = "merged-chains"
# Searches on where the paper's planners end.
AUTO = "auto"


@dataclass(frozen=True, kw_only=True)
class PlannedNetwork:
    """Peaks in GB of 10^9 bytes and times in milliseconds, by planner."""

    name: str
    # The lifetime bound, which is the one that the paper prints.
    bound: float
    peaks: Mapping[str, float]
    times: Mapping[str, float] = field(default_factory=dict)
    tensors: int | None = None
    # Contiguous chains, where they are counted.
    chains: int | None = None
    # The best bound that anything proved, which may be higher, and what proved it.
    best_bound: float | None = None
    certificate: str = ""
    naive: float | None = None
    # What the framework takes, and the most of that which it has in blocks at once.
    framework: float | None = None
    framework_allocated: float | None = None
    # Milliseconds of finding the unsafe pairs, which are not in those of the planners.
    relation: float | None = None
    # The least peak where each chain is merged into one tensor.
    least_merged: float | None = None

    @property
    def best(self) -> float:
        """The lowest peak of the paper's planners."""
        return min(self.peaks[planner] for planner in (*PAPER_PLANNERS, SOME_PLANNER)
                   if planner in self.peaks)  # fmt: skip

    def least(self, planners: Iterable[str]) -> float | None:
        """Return the lowest peak of some planners; None where one of them has none."""
        return _of_all(min, self.peaks, planners)

    def shortest(self, planners: Iterable[str]) -> float | None:
        """Return the shortest time of some planners; None where one of them has none."""
        return _of_all(min, self.times, planners)

    def average(self, planners: Iterable[str]) -> float | None:
        """Return the mean time of some planners; None where one of them has none."""
        return _of_all(mean, self.times, planners)


def published_networks() -> dict[str, PlannedNetwork]:
    """Return the paper's ten networks."""
    return {paper.name: _published(paper) for paper in PAPER_NETWORKS}


def measured_networks(records: Sequence[Record]) -> dict[str, PlannedNetwork]:
    """Return ours of the same names, of records of the instances that stand for them."""
    return planned_networks(records, _instances_of(PAPER_NETWORKS))


def published_large_networks() -> dict[str, PlannedNetwork]:
    """Return the paper's two larger networks."""
    return {paper.name: _published_large(paper) for paper in LARGE_NETWORKS}


def measured_large_networks(records: Sequence[Record]) -> dict[str, PlannedNetwork]:
    """Return ours that stand for the paper's larger ones."""
    return planned_networks(records, _instances_of(LARGE_NETWORKS))


def _published(paper: PaperNetwork) -> PlannedNetwork:
    return PlannedNetwork(
        name=paper.name,
        bound=paper.bound_gb,
        peaks={planner: peak for planner, (peak, _) in paper.by_planner.items()},
        times={planner: time for planner, (_, time) in paper.by_planner.items()},
        naive=paper.naive_gb,
        tensors=paper.tensors,
        chains=paper.chains,
    )


def _published_large(paper: LargeNetwork) -> PlannedNetwork:
    return PlannedNetwork(
        name=paper.name,
        bound=paper.bound_gb,
        peaks={SOME_PLANNER: paper.best_gb},
        framework=paper.baseline_gb,
    )


def _instances_of(
    papers: Sequence[PaperNetwork] | Sequence[LargeNetwork],
) -> dict[str, str]:
    return {paper.name: paper.instance for paper in papers}


def planned_networks(
    records: Sequence[Record], instance_of: Mapping[str, str]
) -> dict[str, PlannedNetwork]:
    """Return what records say of instances, by the name under which each is shown."""
    relations = {
        instance: median(milliseconds_of(run) for run in runs)
        for instance, runs in safety_runs(records).items()
    }
    by_instance: dict[str, list[Record]] = {}
    for record in records:
        if record.status in ANSWERED:
            by_instance.setdefault(record.instance, []).append(record)
    return {
        name: _network(name, by_instance[instance], relations.get(instance))
        for name, instance in instance_of.items()
        if any(LIFETIME in record.bounds for record in by_instance.get(instance, ()))
    }


def _network(name: str, records: Sequence[Record], relation: float | None) -> PlannedNetwork:
    online = [each for each in records if each.kind == "online" and each.planner == FRAMEWORK]
    peaks: dict[str, float] = {}
    merged: list[float] = []
    times: dict[str, list[float]] = {}
    for record in records:
        if record.kind != "offsets" or record.peak is None:
            continue
        if record.planner == MERGED:
            merged.append(record.peak / GB)
            continue
        peaks[record.planner] = max(record.peak / GB, peaks.get(record.planner, 0.0))
        if record.processor_seconds is not None:
            times.setdefault(record.planner, []).append(1e3 * record.processor_seconds)
    strongest = max(records, key=lambda record: record.lower_bound or 0)
    entry = read_catalogue().get(records[0].instance)
    return PlannedNetwork(
        name=name,
        tensors=records[0].tensors,
        chains=None if entry is None else entry.facts.chains,
        bound=max(record.bounds.get(LIFETIME, 0) for record in records) / GB,
        peaks=peaks,
        # The paper has the time of the relation in a table of its own.
        times={
            planner: max(0.0, median(values) - (relation or 0.0))
            for planner, values in times.items()
        },
        relation=relation,
        best_bound=(strongest.lower_bound or 0) / GB,
        certificate=strongest.certificate or "",
        naive=peaks.get(NAIVE),
        framework=_largest(record.peak for record in online),
        framework_allocated=_largest(record.allocated for record in online),
        least_merged=min(merged, default=None),
    )


def _largest(values: Iterable[int | None]) -> float | None:
    known = [value for value in values if value is not None]
    return max(known) / GB if known else None


def _of_all(
    summary: Callable[[list[float]], float], values: Mapping[str, float], planners: Iterable[str]
) -> float | None:
    wanted = tuple(planners)
    if not wanted or any(planner not in values for planner in wanted):
        return None
    return summary([values[planner] for planner in wanted])
