"""Figures of the specification of VPMM, of replays and of the pages measured on a GPU."""

from __future__ import annotations

from evaluation.claims.evidence import Evidence
from evaluation.claims.programs import PROGRAMS, programs_under, reserved_to_default
from evaluation.claims.replayed_run import (
    CACHING,
    VPMM,
    ReplayedRun,
    efficiency_of,
    measured,
    pages_mapped_in_last_iteration,
    reserved_to,
    waits_of,
)
from evaluation.claims.training_loops import LOOPS, MIXTURES

RUNS = (*LOOPS, *MIXTURES)
# Five calls of the specification, in whole GiB.
SCENARIO = "vpmm-scenario"


def _reserved_above_live(run: ReplayedRun) -> float | None:
    record = run.by_allocator.get(VPMM)
    if record is None or record.peak is None:
        return None
    return record.peak / float(record.statistics["requested"]) - 1


VPMM_EVIDENCE = (
    Evidence(
        cases=RUNS,
        measured=measured(RUNS),
        figures={
            "efficiency": efficiency_of(VPMM),
            "reserved-to-caching": reserved_to(VPMM, CACHING),
            "host-waits": waits_of(VPMM),
            "late-mappings": pages_mapped_in_last_iteration(VPMM),
        },
    ),
    Evidence(
        cases=(SCENARIO,),
        measured=measured((SCENARIO,)),
        figures={"reserved-above-live": _reserved_above_live},
    ),
    Evidence(
        cases=PROGRAMS,
        measured=programs_under(VPMM),
        figures={"program-reserved-to-default": reserved_to_default},
    ),
)
