"""The changes between two sets of records of the same runs.

Note: compared runs and losses
------------------------------
Rationale. A planner may get worse on one instance and better on ten, and no mean shows that.

Approach. Two records are of the same run if planner, parameters, budget, seed, capacity and the
digest of the problem are equal: a changed instance of the same name is another one. Repetitions are
one run, with their middle peak and middle time. Every loss counts: bytes, a plan, a proof, a bound
or the whole run. A new bound above an existing plan is as wrong as an invalid plan.

Limits. If a time limit ends a search, another or a busy machine changes its answer. A study whose
records are compared with old ones therefore has node limits.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from evaluation.study.gaps import has_plan, middle_peak
from evaluation.study.record import InstanceRecord, Machine, Record, RunStatus
from planners.errors import GaplessError
from planners.files.json_file import compact_json
from planners.text.byte_units import counted, exact_bytes
from planners.text.plain_text import one_line
from planners.text.table import Column, Row, Table

# A run is slower if both its ratio and its difference exceed these. Guesses at a clock's noise.
SLOWER_TIMES = 1.5
SLOWER_SECONDS = 0.010


class ChangeKind(enum.StrEnum):
    """The kinds of change of a run, the gravest first."""

    INVALID = "invalid"
    WORSE = "worse"
    SLOWER = "slower"
    BETTER = "better"


STYLES = {ChangeKind.INVALID: "bold red", ChangeKind.WORSE: "red", ChangeKind.BETTER: "green"}
LOSSES = (ChangeKind.INVALID, ChangeKind.WORSE)


@dataclass(frozen=True)
class Change:
    """One run that changed."""

    kind: ChangeKind
    instance: str
    label: str
    says: str


@dataclass(frozen=True)
class Changes:
    """The result of comparing two sets of records."""

    # Runs that both sets have.
    compared: int
    # Runs of both sets whose times were compared.
    timed: int
    # Runs that the new set alone has.
    added: int
    found: Sequence[Change]

    def count(self, kind: ChangeKind) -> int:
        """Return the number of changes of a kind."""
        return sum(change.kind is kind for change in self.found)

    @property
    def has_loss(self) -> bool:
        """True if any quality was lost."""
        return any(change.kind in LOSSES for change in self.found)

    def table(self) -> Table:
        """Return a row for each run that changed."""
        columns = [
            Column(heading, is_left=True, wraps=heading == "what")
            for heading in ("", "instance", "planner", "what")
        ]
        rows = [
            Row(
                (str(its.kind), one_line(its.instance), its.label, one_line(its.says)),
                style=STYLES.get(its.kind, ""),
            )
            for its in self.found
        ]
        return Table(columns, rows)

    def summary(self) -> str:
        """Return the last line: the number of compared runs, and of each kind of change."""
        counts = ", ".join(f"{self.count(kind)} {kind}" for kind in ChangeKind)
        times = f"times of {self.timed:,} of them compared"
        added = f"; {counted(self.added, 'run')} only in the new records" if self.added else ""
        return f"{counted(self.compared, 'run')} compared: {counts}; {times}{added}"


@dataclass(frozen=True)
class _Run:
    """The repetitions of a run in one set."""

    records: Sequence[Record]

    @property
    def first(self) -> Record:
        return self.records[0]

    @property
    def peak(self) -> int | None:
        return middle_peak(self.records)

    @property
    def ending(self) -> RunStatus:
        """The status of the first repetition without a plan, or else of the first repetition."""
        without = (record for record in self.records if middle_peak([record]) is None)
        return next(without, self.first).status

    @property
    def is_proven(self) -> bool:
        return all(record.status is RunStatus.OPTIMAL for record in self.records)

    @property
    def bound(self) -> int:
        bounds = (
            max([record.lower_bound or 0, *record.bounds.values()])
            for record in self.records
            if isinstance(record, InstanceRecord)
        )
        return min(bounds, default=0)

    @property
    def invalid(self) -> Record | None:
        refuted = (record for record in self.records if record.status is RunStatus.INVALID)
        return next(refuted, None)

    @property
    def machines(self) -> list[Machine]:
        return [record.machine for record in self.records]

    @property
    def seconds(self) -> float | None:
        """The median time; None if some repetition was not timed."""
        seconds = [
            record.processor_seconds
            for record in self.records
            if record.timed and record.processor_seconds is not None
        ]
        return median(seconds) if len(seconds) == len(self.records) else None


def changes_between(old: Iterable[Record], new: Iterable[Record]) -> Changes:
    """Return the changes from the old records to the new ones, which need a run in common."""
    before, after = _runs(old), _runs(new)
    common = [key for key in before if key in after]
    if not common:
        raise GaplessError(
            f"runs in common are needed, found none: {len(before)} runs in the old records, "
            f"{len(after)} in the new ones"
        )
    best = _best_peaks([*before.values(), *after.values()])
    found = [_missing(run) for key, run in before.items() if key not in after]
    found += [change for key in common for change in _changes(before[key], after[key])]
    for run in after.values():
        found += _wrong(run, best)
    order = list(ChangeKind)
    found.sort(key=lambda change: order.index(change.kind))
    timed = sum(_times(before[key], after[key]) is not None for key in common)
    return Changes(len(common), timed, len(after) - len(common), found)


def _runs(records: Iterable[Record]) -> dict[str, _Run]:
    grouped: dict[str, list[Record]] = {}
    for record in records:
        # An empty value is the default, which records lack that are older than the parameter.
        parameters = {name: value for name, value in record.parameters.items() if value != ""}
        key = compact_json(
            [*record.subject[1:], record.kind, record.planner, parameters,
             record.budget_seconds, record.seed]
        )  # fmt: skip
        grouped.setdefault(key, []).append(record)
    return {key: _Run(found) for key, found in grouped.items()}


def _best_peaks(runs: Sequence[_Run]) -> dict[str, int]:
    best: dict[str, int] = {}
    for record in (record for run in runs for record in run.records):
        if has_plan(record) and record.peak is not None:
            digest = record.instance_digest
            best[digest] = min(best.get(digest, record.peak), record.peak)
    return best


def _missing(run: _Run) -> Change:
    return _change(ChangeKind.WORSE, run, "the run is missing")


def _wrong(run: _Run, best: dict[str, int]) -> list[Change]:
    """Return the reason why the answer of a run cannot be right, or an empty list."""
    if run.invalid is not None:
        return [_change(ChangeKind.INVALID, run, run.invalid.reason or "the plan was refuted")]
    peak = best.get(run.first.instance_digest)
    if run.first.kind == "online" or peak is None or run.bound <= peak:
        return []
    says = f"a bound of {exact_bytes(run.bound)}, above a plan of {exact_bytes(peak)}"
    return [_change(ChangeKind.INVALID, run, says)]


def _changes(before: _Run, after: _Run) -> list[Change]:
    found = []
    if before.peak is not None and after.peak is None:
        if after.invalid is None:
            found.append(_change(ChangeKind.WORSE, after, f"had a plan, now {after.ending}"))
    elif before.peak is None and after.peak is not None:
        found.append(_change(ChangeKind.BETTER, after, "had no plan, now has one"))
    elif before.peak is not None and after.peak is not None and before.peak != after.peak:
        kind = ChangeKind.WORSE if after.peak > before.peak else ChangeKind.BETTER
        share = f" ({after.peak / before.peak - 1:+.3%})" if before.peak else ""
        says = f"peak {exact_bytes(before.peak)}, now {exact_bytes(after.peak)}{share}"
        found.append(_change(kind, after, says))
    elif before.is_proven != after.is_proven:
        kind = ChangeKind.WORSE if before.is_proven else ChangeKind.BETTER
        says = "was proven optimal, now is not" if before.is_proven else "now proven optimal"
        found.append(_change(kind, after, says))
    elif before.bound != after.bound and after.invalid is None:
        kind = ChangeKind.WORSE if after.bound < before.bound else ChangeKind.BETTER
        says = f"bound {exact_bytes(before.bound)}, now {exact_bytes(after.bound)}"
        found.append(_change(kind, after, says))
    times = _times(before, after)
    if times is not None:
        earlier, later = times
        if later > SLOWER_TIMES * earlier and later - earlier > SLOWER_SECONDS:
            says = f"{earlier:.3f} s, now {later:.3f} s"
            found.append(_change(ChangeKind.SLOWER, after, says))
    return found


def _times(before: _Run, after: _Run) -> tuple[float, float] | None:
    """Return both times if both runs were timed on like machines, else None."""
    if before.seconds is None or after.seconds is None:
        return None
    first, *others = [*before.machines, *after.machines]
    if not all(first.is_like(other) for other in others):
        return None
    return before.seconds, after.seconds


def _change(kind: ChangeKind, run: _Run, says: str) -> Change:
    return Change(kind, run.first.instance, run.first.planner, says)
