"""Records of planned recordings that no run made."""

from __future__ import annotations

from dataclasses import replace

from evaluation.findings.recorded_problems import READING
from evaluation.report.slots import PageMaterial, known_slots
from evaluation.study.record import Record, RunStatus
from planners.homosize.paper_variant import PaperVariant
from planners.model.problem import Scalar
from tests.evaluation.claims.made_up_records import record

BOUND = 1000


def planned(
    instance: str,
    peak: int | None,
    *,
    variant: str = "best",
    planner: str = "homosize",
    seconds: float = 0.25,
    tensors: int = 10,
    family: str | None = None,
    added: int = 1 << 20,
    **parameters: Scalar,
) -> Record:
    """Return a plan of a problem whose bound is 1000, or a run that is not supported."""
    settings: dict[str, Scalar] = {}
    if planner == "homosize":
        settings = {"variant": variant, "phases": True, "fusion": True}
    if planner == READING:
        settings = dict(vars(PaperVariant()))
    made = record(
        instance,
        planner,
        peak,
        seconds=None if peak is None else seconds,
        status=RunStatus.UNSUPPORTED if peak is None else RunStatus.FEASIBLE,
        bound=BOUND,
        tensors=tensors,
        family=family,
        parameters={**settings, **parameters},
        statistics={"found_by": "layers", "attempts": 3, "fusions": 2},
    )
    return replace(made, instance_digest=instance, peak_resident_bytes=added)


def slot_rows(name: str, *records: Record, **page: object) -> list[list[str]]:
    """Return the rows of the table in a slot, its headings first; none where it is empty."""
    table = known_slots()[name](PageMaterial("made-up", records, page))
    lines = table.splitlines()
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    return cells[:1] + cells[2:]
