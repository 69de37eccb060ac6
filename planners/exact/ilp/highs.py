"""HiGHS through SciPy."""

from __future__ import annotations

import json
import math
import os
import re
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from tempfile import TemporaryFile
from types import ModuleType
from typing import Any

import numpy as np

from planners.exact.ilp.linear_program import INFINITE, MilpAnswer, MilpModel
from planners.exact.model_limits import require_time, solver_seconds
from planners.exact.plan_exactly import require_package
from planners.model.budget import Budget
from planners.processes.isolated_process import AnsweredInterrupt, Ended, call_isolated

Solver = Callable[[MilpModel, Budget], MilpAnswer]

# More bytes than a number takes as text, with room for a message.
MOST_BYTES_A_COLUMN = 1000

# SciPy's status code for an infeasible program.
INFEASIBLE = 2


def require_highs() -> None:
    """Raise ``MissingDependencyError`` if SciPy is not installed."""
    require_package("scipy", "SciPy", "pip install scipy")


def load_highs() -> Solver:
    """Import SciPy and return the solver, which has neither a thread count nor a seed."""
    from scipy import optimize, sparse

    return partial(_solve, optimize, sparse)


def _solve(optimize: ModuleType, sparse: Any, model: MilpModel, budget: Budget) -> MilpAnswer:
    columns = len(model.lower)
    objective = np.zeros(columns)
    if model.objective is not None:
        objective[model.objective] = 1
    matrix = _matrix_of(model, sparse)
    options: dict[str, float] = {"mip_rel_gap": 0, "disp": True}
    require_time(budget)
    if math.isfinite(budget.remaining_seconds()):
        options["time_limit"] = solver_seconds(budget)
    if budget.node_limit is not None:
        options["node_limit"] = budget.node_limit

    def search() -> bytes:
        with TemporaryFile("w+") as log:
            # SciPy returns only the last solution; the log tells when the others came.
            os.dup2(log.fileno(), 1)
            begun = time.perf_counter()
            found = optimize.milp(
                objective,
                integrality=np.array(model.integer, dtype=np.int64),
                bounds=optimize.Bounds(np.array(model.lower), np.array(model.upper)),
                constraints=optimize.LinearConstraint(matrix, model.row_lower, model.row_upper),
                options=options,
            )
            log.seek(0)
            incumbents = _read_incumbents(begun, log.read())
        # SciPy's message goes on in brackets with HiGHS's own text.
        message = found.message.partition(" (")[0].rstrip(".").lower()
        answer = MilpAnswer(
            values=None if found.x is None else found.x.tolist(),
            infeasible=found.status == INFEASIBLE,
            bound=-INFINITE if found.mip_dual_bound is None else float(found.mip_dual_bound),
            reason="" if found.status in (0, INFEASIBLE) else f"HiGHS: {message}",
            incumbents=incumbents,
            statistics={"nodes": int(found.mip_node_count or 0)},
        )
        return json.dumps(asdict(answer)).encode()

    # SciPy cannot stop HiGHS, which checks its clock only between steps, and SciPy's own presolve
    # and checks take long. A process can be ended.
    try:
        answer = call_isolated(
            search,
            seconds=budget.remaining_seconds(),
            most_bytes=MOST_BYTES_A_COLUMN * (1 + columns),
            interrupt_grace_seconds=0,
        )
    except AnsweredInterrupt as interrupt:
        found = MilpAnswer(**json.loads(interrupt.answer))
        return replace(found, reason="interrupted", interrupted=True)
    except KeyboardInterrupt:
        return MilpAnswer(reason="interrupted", interrupted=True)
    if isinstance(answer, Ended):
        return MilpAnswer(reason=f"HiGHS {answer.how}")
    return MilpAnswer(**json.loads(answer))


def _matrix_of(model: MilpModel, sparse: Any) -> Any:
    """Return the rows of a model as SciPy's compressed rows."""
    lengths = [len(row) for row in model.row_columns]
    return sparse.csr_array(
        (
            np.array([f for row in model.row_factors for f in row], dtype=np.float64),
            np.array([c for row in model.row_columns for c in row], dtype=np.int32),
            np.concatenate([[0], np.cumsum(lengths, dtype=np.int32)]),
        ),
        shape=(len(lengths), len(model.lower)),
    )


def _read_incumbents(begun: float, log: str) -> list[tuple[float, float]]:
    """Return times and objectives of solutions: log rows that begin with a heuristic's letter."""
    row = re.compile(r"^ [A-Za-z] +\d+ +\d+ +\d+ +\S+% +\S+ +(\S+) .* (\S+)s$", re.MULTILINE)
    found = row.findall(log)
    return [(begun + float(seconds), float(objective)) for objective, seconds in found]
