"""What was found out about programs, and how it is kept in a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evaluation.benchmarks.measuring.kept_figures import read_kept
from evaluation.benchmarks.programs.program_result import (
    ProgramAnswer,
    ProgramResult,
    from_fields,
    to_fields,
)
from gpu_runtime.training.run_specification import Allocator, Purpose
from gpu_runtime.training.worker_result import Failure

SCHEMA = "gapless-programs"
# 2: one run an allocator, step times by turn, streams.
SCHEMA_VERSION = 2


@dataclass
class ProgramFindings:
    """What was found out about one program so far."""

    timings: dict[Allocator, ProgramAnswer] = field(default_factory=dict)
    checks: dict[Allocator, ProgramAnswer] = field(default_factory=dict)

    def timed(self, allocator: Allocator) -> ProgramResult | None:
        """Return the timed run, if it came to its end."""
        answer = self.timings.get(allocator)
        return answer if isinstance(answer, ProgramResult) else None

    @property
    def failures(self) -> dict[str, str]:
        """What went wrong, by the label of the run."""
        return {
            f"{purpose} {allocator}": answer.message
            for purpose, answers in ((Purpose.CHECK, self.checks), (Purpose.TIME, self.timings))
            for allocator, answer in answers.items()
            if isinstance(answer, Failure)
        }

    @property
    def undetermined(self) -> list[str]:
        """Operators without a deterministic algorithm that a check ran."""
        results = [check for check in self.checks.values() if isinstance(check, ProgramResult)]
        return sorted({name for result in results for name in result.undetermined})


@dataclass
class ProgramStudy:
    """One call of the benchmark: what made it, and its findings by program."""

    command: str
    # When, and on which processor with which packages.
    measured: str
    findings: dict[str, ProgramFindings] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """What the programs were run with."""
        for findings in self.findings.values():
            for allocator in Allocator:
                if result := findings.timed(allocator):
                    return result.environment
        return {}

    def to_json(self) -> str:
        """Return everything that was run and found."""
        programs = {
            name: {
                part: {allocator: to_fields(answer) for allocator, answer in answers.items()}
                for part, answers in (("time", findings.timings), ("check", findings.checks))
            }
            for name, findings in self.findings.items()
        }
        record = {
            "schema": SCHEMA,
            "version": SCHEMA_VERSION,
            "command": self.command,
            "measured": self.measured,
            "programs": programs,
        }
        return json.dumps(record, indent=1) + "\n"


def read_study(text: str, name: str) -> ProgramStudy:
    """Read what :meth:`ProgramStudy.to_json` wrote; the name is that of its file."""
    return read_kept(text, name, (SCHEMA, SCHEMA_VERSION), _read)


def _read(record: Mapping[str, Any]) -> ProgramStudy:
    return ProgramStudy(
        record["command"],
        record["measured"],
        {program: _read_findings(fields) for program, fields in record["programs"].items()},
    )


def _read_findings(fields: Mapping[str, Any]) -> ProgramFindings:
    timings, checks = (
        {Allocator(allocator): from_fields(its) for allocator, its in fields[part].items()}
        for part in ("time", "check")
    )
    return ProgramFindings(timings, checks)
