"""The answer of a planner from a process of its own, which is killed after its time."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from planners.answers.planner_answer import take_in
from planners.errors import GaplessError
from planners.model.budget import Budget
from planners.model.columns import is_number, is_whole
from planners.model.findings import Findings
from planners.model.plan import Plan, Status
from planners.model.problem import Problem
from planners.processes import standard_output
from planners.processes.isolated_process import AnsweredInterrupt, Ended, call_isolated
from planners.text.plain_text import shown

# Seconds that a planner may take beyond its time limit before its process is killed. A guess.
GRACE_SECONDS = 1.0

# Limit of an answer without its offsets: reason, certificate, statistics. A guess.
MOST_HEADER_BYTES = 16 << 20
# More than any machine has; the sum with the memory that a process already uses fits int64.
MOST_MEMORY_BYTES = 1 << 62
OFFSET = np.dtype("<i8")


@dataclass(frozen=True)
class Isolation:
    """Limits of a planner's process."""

    # Address space that the process may take beyond its initial one; None for no limit.
    memory_bytes: int | None = None
    # Seconds that the process may take beyond the time limit of its budget.
    grace_seconds: float = GRACE_SECONDS

    def __post_init__(self) -> None:
        most, grace = self.memory_bytes, self.grace_seconds
        if most is not None and not is_whole(most, 0, MOST_MEMORY_BYTES):
            raise GaplessError(
                f"memory limit: 0 to {MOST_MEMORY_BYTES} bytes are needed, found {shown(most)}"
            )
        if not is_number(grace, 0):
            raise GaplessError(f"grace: seconds of at least 0 are needed, found {shown(grace)}")


def answer_in_isolation(
    problem: Problem, budget: Budget, isolation: Isolation, answer: Callable[[], Findings]
) -> Findings:
    """Return the answer of a call in a process of its own, checked for form and not judged.

    A planner that did not end in time, or was killed for lack of memory, has found no plan. A
    planner whose process ended in another way without an answer is invalid.
    """

    def in_the_child() -> bytes:
        standard_output.leave_to_the_parent()
        return packed(answer())

    interrupted = False
    try:
        sent = call_isolated(
            in_the_child,
            seconds=budget.remaining_seconds() + isolation.grace_seconds,
            memory_bytes=isolation.memory_bytes,
            most_bytes=MOST_HEADER_BYTES + OFFSET.itemsize * problem.tensor_count,
        )
    except AnsweredInterrupt as interrupt:
        sent, interrupted = interrupt.answer, True
    if isinstance(sent, Ended):
        return _without_answer(sent, budget, isolation)
    try:
        found = take_in(problem, unpacked(sent))
    except Exception:  # the process may have sent any bytes
        found = Findings(reason="its process sent no valid answer", claimed=Status.INVALID)
    return replace(found, interrupted=found.interrupted or interrupted)


def _without_answer(ended: Ended, budget: Budget, isolation: Isolation) -> Findings:
    if ended.late:
        return Findings(
            reason=f"its process was killed (SIGKILL) {isolation.grace_seconds:g} s after its time "
            f"limit of {budget.time_limit_seconds:g} s"
        )
    reason = f"its process {ended.how}"
    if ended.signal == signal.SIGKILL:
        return Findings(reason=f"{reason}, as the system does where memory is short")
    return Findings(reason=reason, claimed=Status.INVALID)


def packed(found: Findings) -> bytes:
    """Return findings as bytes, in which the process that made them sends them."""
    header = {
        "peak": None if found.plan is None else found.plan.peak,
        "lower_bound": found.lower_bound,
        "certificate": found.certificate,
        "reason": found.reason,
        "interrupted": found.interrupted,
        "statistics": dict(found.statistics),
        "incumbents": list(found.incumbents),
        "claimed": None if found.claimed is None else found.claimed.value,
        "cost_bound": found.cost_bound,
        "cost_certificate": found.cost_certificate,
    }
    offsets = b"" if found.plan is None else found.plan.offsets.astype(OFFSET).tobytes()
    return json.dumps(header).encode("ascii") + b"\n" + offsets


def unpacked(sent: bytes) -> Findings:
    """Return the findings in sent bytes, neither checked nor judged; raises if there are none."""
    text, _, offsets = sent.partition(b"\n")
    header = json.loads(text)
    peak, claimed = header["peak"], header["claimed"]
    return Findings(
        None if peak is None else Plan(np.frombuffer(offsets, OFFSET), peak),
        header["lower_bound"],
        header["certificate"],
        header["reason"],
        header["interrupted"],
        header["statistics"],
        None if claimed is None else Status(claimed),
        header["incumbents"],
        header["cost_bound"],
        header["cost_certificate"],
    )
