"""What a GPU might have found out about programs, for what is tested without one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from evaluation.benchmarks.programs.program_result import ProgramResult
from evaluation.benchmarks.programs.program_study import ProgramFindings, ProgramStudy
from gpu_runtime.training.run_specification import JUDGED, Allocator
from gpu_runtime.training.worker_result import Failure, PeakFigures

GIB = 1 << 30
ENVIRONMENT = {"torch": "2.11.0", "device": "NVIDIA H200"}
CHECK = ProgramResult(((0.2,),), losses=("0x1.8p+3", "0x1.9p+3"), parameters="ab" * 32)


def timed(
    reserved: float, allocated: float, *turns: Sequence[float], share: float | None = None
) -> ProgramResult:
    """A result with peaks in GiB and the seconds of the steps of its turns."""
    peaks = PeakFigures(0, int(allocated * GIB), int(reserved * GIB))
    return ProgramResult(tuple(map(tuple, turns)), peaks, share, environment=ENVIRONMENT)


def good() -> ProgramFindings:
    """Planned memory that reaches everything."""
    return ProgramFindings(
        {
            Allocator.DEFAULT: timed(9.0, 8.1, (0.10, 0.11, 0.15)),
            Allocator.EXPANDABLE: timed(8.5, 8.0, (0.12, 0.12, 0.13)),
            Allocator.PLANNED: timed(8.04, 8.0, (0.10, 0.11, 0.14), share=0.0),
        },
        dict.fromkeys(JUDGED, CHECK),
    )


def bad() -> ProgramFindings:
    """Planned memory that reaches nothing."""
    found = good()
    found.timings[Allocator.PLANNED] = timed(12.0, 8.0, (0.20, 0.22, 0.60), share=0.25)
    found.checks[Allocator.PLANNED] = replace(CHECK, parameters="cd" * 32)
    return found


def with_online() -> ProgramFindings:
    """One online allocator that works, and one that does not."""
    found = good()
    found.timings[Allocator.GMLAKE] = timed(8.0, 7.9, (0.15, 0.165, 0.9))
    found.timings[Allocator.VPMM] = Failure("out of memory: CUDA out of memory")
    found.checks |= {Allocator.GMLAKE: CHECK, Allocator.VPMM: replace(CHECK, parameters="")}
    return found


def study(**findings: ProgramFindings) -> ProgramStudy:
    """A study of programs by name, with underscores for hyphens."""
    named = {name.replace("_", "-"): its for name, its in findings.items()}
    return ProgramStudy(
        "python -m evaluation.benchmarks programs", "2026-11-22; a GPU machine", named
    )
