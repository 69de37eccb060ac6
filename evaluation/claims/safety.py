"""Figures of the paper on safety, of its own table and of records, and the table of both.

Source: Lamprou et al. 2023, section 5.1 and table 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from evaluation.claims.evidence import Evidence
from evaluation.claims.paper_networks import PAPER_NETWORKS
from evaluation.study.record import ANSWERED, Record
from planners.model.problem import Scalar
from planners.text.byte_units import three_digits
from planners.text.table import Row, Table, columns_of

# What the paper calls its algorithms, and the default here.
PLAIN, OPTIMIZED, BY_STREAMS, OURS = "1", "1opt", "2", "clocks"
# The planner that runs them, from the study's own file.
PLANNER = "unsafe-pairs"
NOTHING = "-"


@dataclass(frozen=True)
class SafetyTimes:
    """Milliseconds that each algorithm took on one network, run after run."""

    tensors: int
    times: Mapping[str, Sequence[float]]
    # The answer of each algorithm, shortened to a digest.
    relations: Mapping[str, Scalar] = field(default_factory=dict)
    # What else is known of the network.
    facts: Mapping[str, Scalar] = field(default_factory=dict)

    def least(self, algorithm: str) -> float | None:
        """Return the shortest of an algorithm's times: what else a machine does only adds."""
        return min(self.times.get(algorithm, ()), default=None)

    def saved(self, algorithm: str, reference: str) -> float | None:
        """Return how much less time an algorithm takes than another, shortest to shortest."""
        its, other = self.least(algorithm), self.least(reference)
        return None if its is None or not other else 1 - its / other


def published_times() -> dict[str, SafetyTimes]:
    """Return the paper's ten networks."""
    return {
        paper.name: SafetyTimes(
            paper.tensors,
            {OPTIMIZED: [paper.safety_1opt_ms], BY_STREAMS: [paper.safety_2_ms]},
        )
        for paper in PAPER_NETWORKS
    }


def measured_times(records: Sequence[Record]) -> dict[str, SafetyTimes]:
    """Return ours of the same names, of records of the instances that stand for them."""
    runs = safety_runs(records)
    return {
        paper.name: _times(runs[paper.instance])
        for paper in PAPER_NETWORKS
        if paper.instance in runs
    }


def safety_runs(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Return the runs of safety algorithms that answered, by instance."""
    runs: dict[str, list[Record]] = {}
    for record in records:
        if record.planner == PLANNER and record.status in ANSWERED:
            runs.setdefault(record.instance, []).append(record)
    return runs


def milliseconds_of(run: Record) -> float:
    """Return what finding all unsafe pairs took, the rest of the run apart."""
    return 1e3 * float(run.statistics["seconds"])


def _times(runs: Sequence[Record]) -> SafetyTimes:
    times: dict[str, list[float]] = {}
    relations: dict[str, Scalar] = {}
    for run in runs:
        algorithm = str(run.parameters["algorithm"])
        times.setdefault(algorithm, []).append(milliseconds_of(run))
        relations[algorithm] = run.statistics["relation"]
    return SafetyTimes(runs[0].tensors, times, relations, runs[0].statistics)


def _saved_by_streams(network: SafetyTimes) -> float | None:
    return network.saved(BY_STREAMS, OPTIMIZED)


def _relations_agree(network: SafetyTimes) -> float | None:
    """Return whether every algorithm gave one answer; None where fewer than two did."""
    if len(network.relations) < 2:
        return None
    return float(len(set(network.relations.values())) == 1)


def safety_table(records: Sequence[Record]) -> str:
    """Return Table 1: the paper's two algorithms there and here, and ours."""
    theirs, ours = published_times(), measured_times(records)
    rows = [Row((name, *_cells(theirs[name], ours[name]))) for name in theirs if name in ours]
    headings = ("network", "tensors, paper", "here", "streams", "unsafe", "between", "1opt, paper",
                "2", "saved", "1, here", "1opt", "2", "saved", "ours", "1opt/ours")  # fmt: skip
    return Table(columns_of(*headings), rows).markdown()


def _cells(theirs: SafetyTimes, ours: SafetyTimes) -> list[str]:
    pairs = max(1, ours.tensors * (ours.tensors - 1) // 2)
    optimized, default = ours.least(OPTIMIZED), ours.least(OURS)
    return [
        f"~{theirs.tensors:,}",
        f"{ours.tensors:,}",
        f"{ours.facts['streams']:,}",
        f"{float(ours.facts['unsafe_pairs']) / pairs:.1%}",
        f"{float(ours.facts['between_streams']) / ours.tensors:.1%}",
        _milliseconds(theirs.least(OPTIMIZED)),
        _milliseconds(theirs.least(BY_STREAMS)),
        _share(theirs.saved(BY_STREAMS, OPTIMIZED)),
        _milliseconds(ours.least(PLAIN)),
        _milliseconds(optimized),
        _milliseconds(ours.least(BY_STREAMS)),
        _share(ours.saved(BY_STREAMS, OPTIMIZED)),
        _milliseconds(default),
        NOTHING if optimized is None or not default else f"{optimized / default:.1f}x",
    ]


def _milliseconds(value: float | None) -> str:
    return NOTHING if value is None else three_digits(value)


def _share(share: float | None) -> str:
    return NOTHING if share is None else f"{share:z.1%}"


SAFETY = (
    Evidence(
        cases=tuple(paper.name for paper in PAPER_NETWORKS),
        measured=measured_times,
        published=published_times(),
        figures={"saved-by-streams": _saved_by_streams, "relations-agree": _relations_agree},
    ),
)
