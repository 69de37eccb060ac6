"""Records that no planner made, for what reads records."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from evaluation.study.record import RECORDS, Machine, RunStatus

MACHINE = Machine("a processor", 1, 1 << 30, "Linux 6")


def record(instance: str, planner: str, peak: int | None = 12, **changes: Any) -> Any:
    """Return the record of a plan with this peak, or of none, above a lifetime bound of 10."""
    fields: dict[str, Any] = {
        "study": "made-up",
        "run": f"{instance}/{planner}",
        "asked": "sha256:2",
        "instance": instance,
        "instance_digest": f"sha256:{instance}",
        "planner": planner,
        "seed": 0,
        "repetition": 0,
        "status": RunStatus.NO_PLAN_FOUND if peak is None else RunStatus.FEASIBLE,
        "peak": peak,
        "processor_seconds": 0.5,
        "wall_seconds": 1.0,
        "tensors": 5,
        "bounds": {"lifetime": 10},
        "timed": True,
        "machine": MACHINE,
        "versions": {"python": "3.11"},
        "moment": "2026-01-02T03:04:05+00:00",
    }
    fields |= changes
    fields["moment"] = datetime.fromisoformat(fields["moment"])
    kind = RECORDS[fields.pop("kind", "offsets")]
    of_instances = {"tensors", "bounds"} - {*kind.__struct_fields__}
    return kind(**{name: value for name, value in fields.items() if name not in of_instances})
