"""Figures of the paper on safety, of its own table and of records, and the table of both.

Source: Lamprou et al. 2023, section 5.1 and table 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from evaluation.claims.evidence import Evidence
from evaluation.claims.paper_networks import PAPER_NETWORKS
from evaluation.report.gap_tables import cell
from evaluation.study.record import ANSWERED, Record
from planners.errors import GaplessError
from planners.model.problem import Scalar
from planners.text.byte_units import three_digits
from planners.text.table import Row, Table, columns_of

# What the paper calls its algorithms, and the default here.
PLAIN, OPTIMIZED, BY_STREAMS, OURS = "1", "1opt", "2", "clocks"
# The planner that runs them, from the study's own file.
PLANNER = "unsafe-pairs"
NOTHING = "-"
# Below this share two times are as good as equal.
CLEAR = 0.1
# Headings.
FACTS = ("streams", "unsafe", "between")
TIMES = ("1opt", "2", "saved", "ours", "worst", "1opt/ours", "2/ours")


@dataclass(frozen=True)
class SafetyTimes:
    """Milliseconds that each algorithm took on one network, run after run."""

    tensors: int
    times: Mapping[str, Sequence[float]]
    # The answer of each algorithm, shortened to a digest.
    relations: Mapping[str, Scalar] = field(default_factory=dict)
    # The longest round of ours.
    worst: float | None = None
    # What else is known of the network.
    facts: Mapping[str, Scalar] = field(default_factory=dict)

    def median(self, algorithm: str) -> float | None:
        """Return the middle one of an algorithm's times."""
        times = self.times.get(algorithm)
        return median(times) if times else None

    def ratio(self, algorithm: str, reference: str) -> float | None:
        """Return how many times what another takes an algorithm takes, median to median."""
        its, other = self.median(algorithm), self.median(reference)
        return None if its is None or not other else its / other

    def saved(self, algorithm: str, reference: str) -> float | None:
        """Return how much less time an algorithm takes than another, median to median."""
        ratio = self.ratio(algorithm, reference)
        return None if ratio is None else 1 - ratio

    @property
    def agree(self) -> bool:
        """Whether every algorithm gave one answer."""
        return len(set(self.relations.values())) <= 1


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
    worst: list[float] = []
    for run in runs:
        algorithm = str(run.parameters["algorithm"])
        times.setdefault(algorithm, []).append(milliseconds_of(run))
        relations[algorithm] = run.statistics["relation"]
        if algorithm == OURS:
            worst.append(1e3 * float(run.statistics["worst_seconds"]))
    return SafetyTimes(
        runs[0].tensors, times, relations, max(worst, default=None), runs[0].statistics
    )


def _saved_by_streams(network: SafetyTimes) -> float | None:
    return network.saved(BY_STREAMS, OPTIMIZED)


def _relations_agree(network: SafetyTimes) -> float | None:
    """Return whether every algorithm gave one answer; None where fewer than two did."""
    if len(network.relations) < 2:
        return None
    return float(network.agree)


def safety_table(records: Sequence[Record]) -> str:
    """Return Table 1: the paper's two algorithms there and here, and ours."""
    theirs, ours = published_times(), measured_times(records)
    rows = [
        Row(
            (
                name,
                f"~{its.tensors:,}",
                *_facts(ours[name]),
                *_published(its),
                *_times_of(ours[name]),
            )
        )
        for name, its in theirs.items()
        if name in ours
    ]
    headings = ("network", "tensors, paper", "here", *FACTS, "1opt, paper", "2", "saved",
                "1, here", *TIMES)  # fmt: skip
    return Table(columns_of(*headings), rows).markdown()


def drawn_table(records: Sequence[Record]) -> str:
    """Return the same of the graphs that are drawn at random, of which the paper has nothing."""
    rows = []
    for instance, runs in safety_runs(records).items():
        if runs[0].family is None:
            continue
        ours = _times(runs)
        if not ours.agree:
            raise GaplessError(
                f"{instance}: all algorithms find the same pairs unsafe, found two answers among "
                f"those of {', '.join(ours.relations)}"
            )
        rows.append(Row((cell(instance), *_facts(ours), *_times_of(ours))))
    return (
        Table(columns_of("graph", "tensors", *FACTS, "1", *TIMES), rows).markdown() if rows else ""
    )


def verdict_table(records: Sequence[Record]) -> str:
    """Return on how many networks Algorithm 2 takes less time than 1opt, and on how many more."""
    here = [saved for each in measured_times(records).values()
            if (saved := _saved_by_streams(each)) is not None]  # fmt: skip
    paper = [saved for each in published_times().values()
             if (saved := _saved_by_streams(each)) is not None]  # fmt: skip
    rows = [
        Row((
            who, str(len(shares)),
            *(count for sign in (1, -1) for count in _counts([sign * share for share in shares])),
        ))
        for who, shares in (("paper", paper), ("here", here))
        if shares
    ]  # fmt: skip
    headings = ("", "networks", "2 takes less", "a tenth or more", "2 takes more",
                "a tenth or more")  # fmt: skip
    return Table(columns_of(*headings), rows).markdown()


def _counts(shares: Sequence[float]) -> tuple[str, str]:
    """Return how many shares are above 0, and how many of them clearly."""
    # In whole percent.
    clear = sum(round(share, 2) >= CLEAR for share in shares)
    return str(sum(share > 0 for share in shares)), str(clear)


def _facts(ours: SafetyTimes) -> list[str]:
    pairs = max(1, ours.tensors * (ours.tensors - 1) // 2)
    return [
        f"{ours.tensors:,}",
        f"{ours.facts['streams']:,}",
        f"{float(ours.facts['unsafe_pairs']) / pairs:.1%}",
        f"{float(ours.facts['between_streams']) / ours.tensors:.1%}",
    ]


def _published(theirs: SafetyTimes) -> list[str]:
    return [
        _milliseconds(theirs.median(OPTIMIZED)),
        _milliseconds(theirs.median(BY_STREAMS)),
        _share(_saved_by_streams(theirs)),
    ]


def _times_of(ours: SafetyTimes) -> list[str]:
    return [
        _milliseconds(ours.median(PLAIN)),
        _milliseconds(ours.median(OPTIMIZED)),
        _milliseconds(ours.median(BY_STREAMS)),
        _share(_saved_by_streams(ours)),
        _milliseconds(ours.median(OURS)),
        _milliseconds(ours.worst),
        *(_times_text(ours.ratio(other, OURS)) for other in (OPTIMIZED, BY_STREAMS)),
    ]


def _times_text(ratio: float | None) -> str:
    return NOTHING if ratio is None else f"{ratio:.1f}x"


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
