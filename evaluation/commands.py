"""The commands of this package for ``gapless``."""

from __future__ import annotations

from planners.commands import Command

BENCHMARKS = Command("print a page of measurements", "evaluation.benchmarks.__main__:main")
STUDY = Command("run a study, resume it, or show what it runs", "evaluation.study.__main__:main")
REPORT = Command("write records of studies as pages", "evaluation.report.__main__:main")
REGRESS = Command("compare records with earlier ones", "evaluation.regress.__main__:main")
