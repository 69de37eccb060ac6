"""What was predicted of trainings and what they took, and how it is kept in a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from evaluation.benchmarks.fits.kept_figures import read_kept
from gpu_runtime.fitting.fit_check import LIVE
from gpu_runtime.training.training_run import JUDGED

SCHEMA = "gapless-fits"
SCHEMA_VERSION = 1

ROWS = (LIVE, *map(str, JUDGED))


@dataclass
class FitFindings:
    """What was found out about one training, in bytes by the names of :data:`ROWS`."""

    # Its model and options, as on a command line.
    training: str
    predicted: dict[str, int] = field(default_factory=dict)
    measured: dict[str, int] = field(default_factory=dict)
    # What went wrong, by what was done.
    failures: dict[str, str] = field(default_factory=dict)

    def difference(self, row: str) -> float | None:
        """Return predicted / measured - 1; none where one of them is not known."""
        predicted, measured = self.predicted.get(row), self.measured.get(row)
        return predicted / measured - 1 if predicted and measured else None

    @property
    def largest_difference(self) -> float | None:
        """The largest of all allocators either way; none where one of them is not known."""
        found = [self.difference(allocator) for allocator in JUDGED]
        known = [abs(difference) for difference in found if difference is not None]
        return max(known) if len(known) == len(found) else None


@dataclass
class FitStudy:
    """One call of the benchmark: what made it, and its findings by model."""

    command: str
    # When, and on which processor with which packages.
    measured: str
    # What the trainings were run with.
    environment: dict[str, str] = field(default_factory=dict)
    findings: dict[str, FitFindings] = field(default_factory=dict)
    # When and with what it was predicted again, if it was.
    predicted_again: str = ""

    def to_json(self) -> str:
        """Return everything that was found."""
        record = {"schema": SCHEMA, "version": SCHEMA_VERSION, **asdict(self)}
        return json.dumps(record, indent=1) + "\n"


def read_fit_study(text: str, name: str) -> FitStudy:
    """Read what :meth:`FitStudy.to_json` wrote; the name is that of its file."""
    return read_kept(text, name, (SCHEMA, SCHEMA_VERSION), _read)


def _read(record: Mapping[str, Any]) -> FitStudy:
    findings = {model: FitFindings(**fields) for model, fields in record["findings"].items()}
    for its in findings.values():
        for figures in (its.predicted, its.measured):
            if not all(row in ROWS and type(size) is int for row, size in figures.items()):
                raise ValueError(f"bytes of {', '.join(ROWS)} are needed, found {figures}")
    return FitStudy(
        record["command"],
        record["measured"],
        dict(record["environment"]),
        findings,
        record.get("predicted_again", ""),
    )
