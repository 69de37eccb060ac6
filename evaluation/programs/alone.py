"""A program as a user's function, which ``gapless fit FILE.py:train`` predicts without a GPU."""

from __future__ import annotations

from importlib import import_module

from evaluation.programs.program_list import PROGRAMS
from gpu_runtime.training.allocator_probe import AllocatorProbe
from gpu_runtime.training.scene import Scene


def train(program: str, batch: int = 0) -> None:
    """Train a program as it does on a GPU; 0 rows are those of the program."""
    run = PROGRAMS[program].fit_run(batch or None)
    module, _, function = run.entry.partition(":")
    getattr(import_module(module), function)(Scene(run, AllocatorProbe()))
