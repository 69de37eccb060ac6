"""Figures of the paper on GMLake, of replays and of the pages that were measured on a GPU.

Source: Guo et al. 2024, abstract and sections 2.2, 4.2, 5 and 7.
"""

from __future__ import annotations

from collections.abc import Sequence

from evaluation.claims.evidence import Evidence
from evaluation.claims.programs import PROGRAMS, programs_under, step_to_faster
from evaluation.claims.replayed_run import (
    CACHING,
    GMLAKE,
    calls_in_last_iteration,
    fragmentation_of,
    measured,
    points_taken,
    reserved_to,
)
from evaluation.claims.training_loops import LOOPS, MIXTURES
from evaluation.study.record import Record
from evaluation.tables.committed_page import first_bold_of, number_of, rows_of

RUNS = (*LOOPS, *MIXTURES)
CALLS, PAGES, TWO_GIB = "device-calls.md", "2 MiB", "2 GiB"


def _two_gib(_records: Sequence[Record]) -> dict[str, float]:
    """Return how many times as long 2 GiB take in pages of 2 MiB as in one plain allocation."""
    rows = rows_of(CALLS, "Milliseconds for 2,048 MiB")
    [pages] = [number_of(row["taking"]) for row in rows if row["piece"] == PAGES]
    return {TWO_GIB: pages / number_of(first_bold_of(CALLS).removesuffix(" ms"))}


GMLAKE_EVIDENCE = (
    Evidence(
        cases=RUNS,
        measured=measured(RUNS),
        figures={
            "fragmentation": fragmentation_of(GMLAKE),
            "caching-fragmentation": fragmentation_of(CACHING),
            "reserved-to-caching": reserved_to(GMLAKE, CACHING),
            "points-taken": points_taken(GMLAKE, CACHING),
            "late-calls": calls_in_last_iteration(GMLAKE),
        },
    ),
    Evidence(
        cases=PROGRAMS,
        measured=programs_under(GMLAKE),
        figures={"step-to-faster": step_to_faster},
    ),
    Evidence(
        cases=(TWO_GIB,),
        measured=_two_gib,
        figures={"pages-to-plain": float},
    ),
)
