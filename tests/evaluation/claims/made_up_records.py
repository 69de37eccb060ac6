"""Records that no run made, for claims and tables."""

from __future__ import annotations

from collections.abc import Mapping

from evaluation.study.record import Kind, Machine, Record, RunStatus
from planners.model.problem import Scalar

GB = 1_000_000_000


def record(
    instance: str,
    planner: str,
    peak: int | None = None,
    *,
    kind: Kind = "offsets",
    seconds: float | None = None,
    status: RunStatus = RunStatus.FEASIBLE,
    bound: int = GB,
    proven: int | None = None,
    allocated: int | None = None,
    parameters: Mapping[str, Scalar] | None = None,
    statistics: Mapping[str, Scalar] | None = None,
    tensors: int = 10,
    family: str | None = None,
) -> Record:
    """Return a record; what the planner proved is the lifetime bound where nothing is said."""
    return Record(
        study="made-up",
        run=f"{instance}/{planner}",
        asked="",
        instance=instance,
        instance_digest="",
        tensors=tensors,
        family=family,
        planner=planner,
        kind=kind,
        seed=0,
        repetition=0,
        status=status,
        timed=True,
        machine=Machine("a processor", 1, GB, "a system"),
        versions={"gapless": "0"},
        moment="2026-01-01T00:00:00",
        parameters=parameters or {},
        peak=peak,
        allocated=allocated,
        lower_bound=bound if proven is None else proven,
        bounds={"lifetime": bound},
        processor_seconds=seconds,
        statistics=statistics or {},
    )
