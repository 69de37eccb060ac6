"""The commands of this package for ``gapless``."""

from __future__ import annotations

from planners.commands import Command

BENCHMARKS = Command("print a page of measurements", "evaluation.benchmarks.__main__:main")
STUDY = Command(
    "run a study, and show, report and compare its records", "evaluation.study.__main__:main"
)
