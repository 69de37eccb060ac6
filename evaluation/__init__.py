"""Measurements that anyone can repeat, and pictures."""

from pathlib import Path
from runpy import run_path

# First of all: a folder of the user's may have the name of a package of ours.
run_path(str(Path(__file__).parents[1] / "planners" / "siblings.py"))["require_ours"](
    "planners", "instances", "gpu_runtime"
)

from planners.command_line.version import __version__ as __version__
