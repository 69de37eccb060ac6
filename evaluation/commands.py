"""The commands of this package for ``gapless``."""

from __future__ import annotations

from planners.commands import Command

STUDY = Command(
    "run a study, and show, report and compare its records", "evaluation.study.__main__:main"
)
