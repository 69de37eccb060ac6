"""Runs steps within a limit of memory: some results are computed again rather than kept.

>>> loss_of = KeptWithin(lambda batch: model(**batch).loss, "3GiB")  # doctest: +SKIP
>>> for batch in data:  # doctest: +SKIP
...     loss_of(batch).backward()
...     optimizer.step()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planners.late_exports import late_exports

if TYPE_CHECKING:
    from gpu_runtime.repeating.decision import (
        Decision,
        decision_of_sequence,
        decision_of_units,
    )
    from gpu_runtime.repeating.kept_within import KeptWithin
    from gpu_runtime.repeating.recorded_step import record_step
    from gpu_runtime.repeating.repeated_runs import RepeatedRuns
    from gpu_runtime.repeating.step_problem import problem_of
else:
    __getattr__ = late_exports(
        __name__,
        {
            "Decision": "decision", "KeptWithin": "kept_within", "RepeatedRuns": "repeated_runs",
            "decision_of_sequence": "decision", "decision_of_units": "decision",
            "problem_of": "step_problem", "record_step": "recorded_step",
        },
    )  # fmt: skip


__all__ = [
    "Decision", "KeptWithin", "RepeatedRuns", "decision_of_sequence", "decision_of_units",
    "problem_of", "record_step",
]  # fmt: skip
