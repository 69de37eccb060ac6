"""The commands of this package for ``gapless``."""

from __future__ import annotations

from planners.commands import Command

CONVERT = Command(
    "from one file format to another, planned or not", "instances.convert.__main__:main"
)
INSTANCES = Command("list, make, reorder and recompute instances", "instances.__main__:main")
EXTRACT = Command("extract a step of a PyTorch model", "instances.extract.__main__:main")
