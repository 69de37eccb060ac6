"""CP-SAT in a process of its own, which sends every plan that it finds."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from planners.exact.cp_sat.offset_model import OffsetModel
from planners.exact.interruptible import run_interruptibly
from planners.exact.model_limits import ModelTooLargeError
from planners.model.budget import Budget
from planners.processes.isolated_process import Ended, stream_isolated

# Limits the bytes that CP-SAT's process may send for each block. An offset takes some 20 as text.
MOST_BYTES_A_HEAD = 1000

# Seconds that CP-SAT gets after Ctrl-C to return its best plan. A guess.
GRACE_SECONDS = 10.0


@dataclass(frozen=True)
class Solved:
    """The outcome of CP-SAT, as its process sends it after the plans."""

    status: int
    conflicts: int
    branches: int
    bound: float


def interleaves(budget: Budget) -> bool:
    """Return True if one thread follows the whole portfolio; a plain one follows one strategy."""
    return budget.threads == 1 or budget.node_limit is not None


def solve(
    cp_model: Any,
    solver: Any,
    model: OffsetModel,
    receive: Callable[[list[int]], None],
    seconds: float,
) -> Solved | Ended:
    """Run a solver; ``receive`` is called with the heads of each plan.

    A process can be ended even during a long presolve; a thread cannot.
    """
    # Python handles Ctrl-C; CP-SAT's own handler would replace Python's.
    solver.parameters.catch_sigint_signal = False
    answer = stream_isolated(
        lambda send: _solve(cp_model, solver, model, send),
        lambda heads: receive(json.loads(heads)),
        seconds=seconds,
        most_bytes=MOST_BYTES_A_HEAD * (1 + len(model.head)),
        interrupt_grace_seconds=GRACE_SECONDS,
    )
    return answer if isinstance(answer, Ended) else read_solved(cp_model, model, answer)


def read_solved(cp_model: Any, model: OffsetModel, answer: bytes) -> Solved:
    """Return the outcome that the process sent."""
    solved = Solved(**json.loads(answer))
    if solved.status == cp_model.MODEL_INVALID:
        raise ModelTooLargeError(f"CP-SAT rejects the model: {model.model.validate()}")
    return solved


def _solve(cp_model: Any, solver: Any, model: OffsetModel, send: Callable[[bytes], None]) -> bytes:
    class Sender(cp_model.CpSolverSolutionCallback):  # type: ignore[misc]
        def on_solution_callback(self) -> None:
            heads = [x if isinstance(x, int) else self.value(x) for x in model.head]
            send(json.dumps(heads).encode())

    status, _ = run_interruptibly(
        lambda: solver.solve(model.model, Sender()), solver.stop_search, GRACE_SECONDS
    )
    if status is None:
        raise KeyboardInterrupt
    solved = Solved(
        int(status), solver.num_conflicts, solver.num_branches, solver.best_objective_bound
    )
    return json.dumps(asdict(solved)).encode()
