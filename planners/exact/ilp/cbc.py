"""CBC as the program that PuLP installs.

The program is run directly. PuLP's own driver returns neither the bound nor the nodes of a search,
and leaves the process running after Ctrl-C.
"""

from __future__ import annotations

import math
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from planners.errors import MissingDependencyError
from planners.exact.ilp.highs import Solver
from planners.exact.ilp.linear_program import INFINITE, MilpAnswer, MilpModel
from planners.exact.model_limits import RESERVE_SECONDS, require_time, solver_seconds
from planners.exact.plan_exactly import require_package
from planners.model.budget import Budget
from planners.processes import child_process


def require_cbc() -> None:
    """Raise ``MissingDependencyError`` if PuLP, which installs CBC, is missing."""
    require_package("pulp", "PuLP, which brings CBC,", "pip install 'pulp[cbc]'")


def load_cbc() -> Solver:
    """Find the program and return the solver."""
    with _without_highspy():
        import pulp
    # From version 4 on, PuLP finds CBC as a separate package.
    bundled = getattr(pulp, "PULP_CBC_CMD", None)
    program = shutil.which(bundled.pulp_cbc_path if bundled else pulp.COIN_CMD(msg=False).path)
    if program is None:
        raise MissingDependencyError(
            "PuLP has no CBC that runs on this machine; install it with: pip install 'pulp[cbc]'"
        )

    def solve(model: MilpModel, budget: Budget) -> MilpAnswer:
        # Unnamed files: however this process ends, no file is left behind.
        with TemporaryFile() as mps, TemporaryFile() as solution, TemporaryFile("w+") as log:
            return _solve(program, mps.fileno(), solution.fileno(), log, model, budget)

    return solve


@contextmanager
def _without_highspy() -> Iterator[None]:
    """Keep PuLP from importing highspy, whose symbols clash with OR-Tools' in one process."""
    if "highspy" in sys.modules:
        yield
        return
    sys.modules["highspy"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules["highspy"]


def _solve(
    program: str, mps: int, solution: int, log: IO[str], model: MilpModel, budget: Budget
) -> MilpAnswer:
    model_path, solution_path = Path(f"/dev/fd/{mps}"), Path(f"/dev/fd/{solution}")
    write_mps(model, model_path)
    command = [program, str(model_path), "-ratioGap", "0", "-timeMode", "elapsed"]
    # CBC takes a seed of 0 as the time of day.
    command += ["-randomSeed", str(budget.seed + 1), "-randomCbcSeed", str(budget.seed + 1)]
    if budget.threads > 1:
        command += ["-threads", str(budget.threads)]
    if budget.node_limit is not None:
        command += ["-maxNodes", str(budget.node_limit)]
    require_time(budget)
    left = budget.remaining_seconds()
    given = solver_seconds(budget)
    if math.isfinite(left):
        command += ["-sec", f"{given:.3f}"]
    command += ["-solve", "-solution", str(solution_path)]
    begun = time.perf_counter()
    ended, interrupted = _run(command, (mps, solution), log.fileno(), left)
    # If the time limit passes while CBC prepares the model, CBC may report this as a proof. So a
    # proof counts only if it came before the limit. The log rounds the limit, hence the margin.
    stopped = interrupted or time.perf_counter() - begun > given - 1e-3
    said = solution_path.read_text().splitlines()
    if not said:
        reason = "interrupted" if interrupted else "CBC did not end within its time limit"
        if ended:
            reason = "CBC wrote no solution"
        return MilpAnswer(reason=reason, interrupted=interrupted)
    log.seek(0)
    answer = replace(
        _read_answer(model, text := log.read(), said), incumbents=_read_incumbents(begun, text)
    )
    if stopped:
        claimed = not answer.reason
        reason = "interrupted" if interrupted else answer.reason or "CBC stopped on its time limit"
        return replace(
            answer,
            infeasible=False,
            bound=-INFINITE if claimed else answer.bound,
            reason=reason,
            interrupted=interrupted,
        )
    return answer


def _run(command: list[str], files: tuple[int, int], log: int, seconds: float) -> tuple[bool, bool]:
    """Run the program; return whether it ended by itself, and whether Ctrl-C came."""
    # A session of its own shields the process from the terminal's Ctrl-C, so that Python decides.
    with child_process.start(
        command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=files,
        start_new_session=True,
    ) as process:  # fmt: skip
        try:
            process.wait(seconds if math.isfinite(seconds) else None)
            return True, False
        except subprocess.TimeoutExpired:
            return False, False
        except KeyboardInterrupt:
            # On SIGINT CBC writes the solution that it has.
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(RESERVE_SECONDS)
            return False, True
        finally:
            process.kill()


def _read_answer(model: MilpModel, log: str, solution: list[str]) -> MilpAnswer:
    status = solution[0]
    infeasible = status.startswith(("Infeasible", "Integer infeasible"))
    optimal = status.startswith("Optimal")
    values: list[float] | None = None
    if "no integer solution" not in status and not infeasible and len(solution) > 1:
        values = [0.0] * len(model.lower)
        for line in solution[1:]:
            name, value = line.replace("**", "").split()[1:3]
            values[int(name[1:])] = float(value)
    bound = _number(log, r"Lower bound: +(\S+)")
    if optimal and bound is None and model.objective is not None:
        bound = _number(log, r"Objective value: +(\S+)")
    reason = "" if optimal or infeasible else f"CBC: {re.split(r' - | [(]', status)[0].lower()}"
    nodes = int(_number(log, r"Enumerated nodes: +(\d+)") or 0)
    return MilpAnswer(
        values,
        infeasible,
        -INFINITE if bound is None else bound,
        reason,
        {"nodes": nodes},
    )


def _number(log: str, pattern: str) -> float | None:
    found = re.findall(pattern, log)
    return float(found[-1]) if found else None


def _read_incumbents(begun: float, log: str) -> list[tuple[float, float]]:
    found = re.findall(r"Integer solution of (\S+) found .*[(](\S+) seconds[)]", log)
    return [(begun + float(seconds), float(objective)) for objective, seconds in found]


def write_mps(model: MilpModel, path: Path) -> None:
    """Write a model in free MPS format, column ``j`` as ``c<j>`` and row ``i`` as ``r<i>``.

    Each row has exactly one finite side.
    """
    entries: list[list[str]] = [[] for _ in model.lower]
    for row, (columns, factors) in enumerate(
        zip(model.row_columns, model.row_factors, strict=True)
    ):
        for column, factor in zip(columns, factors, strict=True):
            entries[column].append(f" c{column} r{row} {factor}")
    lines = ["NAME gapless FREE", "ROWS", " N objective"]
    sides = list(zip(model.row_lower, model.row_upper, strict=True))
    lines += [f" {'G' if upper == INFINITE else 'L'} r{r}" for r, (_, upper) in enumerate(sides)]
    lines.append("COLUMNS")
    for column, integer in enumerate(model.integer):
        marker = " MARKER 'MARKER' "
        lines += [marker + "'INTORG'"] if integer else []
        lines.append(f" c{column} objective {int(column == model.objective)}")
        lines += entries[column]
        lines += [marker + "'INTEND'"] if integer else []
    lines.append("RHS")
    for row, (lower, upper) in enumerate(sides):
        lines.append(f" RHS r{row} {int(lower if upper == INFINITE else upper)}")
    lines.append("BOUNDS")
    for column, (low, high) in enumerate(zip(model.lower, model.upper, strict=True)):
        lines += [f" LO BND c{column} {low}", f" UP BND c{column} {high}"]
    path.write_text("\n".join([*lines, "ENDATA", ""]))
