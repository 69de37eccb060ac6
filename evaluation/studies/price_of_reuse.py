"""The least cost that the report of dsa-solver has for an instance, from its tables."""

from __future__ import annotations

import csv
import os
from pathlib import Path

from planners.model.budget import Budget
from planners.model.findings import Findings
from planners.model.problem import Problem
from planners.registry import UnsupportedProblemError, register

# The environment variable that has the folder of both tables.
FOLDER = "DSA_RP"
LIFTED = "minimalloc-dsa-rp-v1-summary.csv"
COMPILER = "dsa-rp-v1-paired-objectives.csv"


@register(
    "reported-cost", summary="The least cost in the report of dsa-solver; never a plan", whole=True
)
def reported_cost(problem: Problem, budget: Budget) -> Findings:  # noqa: ARG001
    """Look an instance up by its source and its number of prices."""
    if FOLDER not in os.environ:
        raise UnsupportedProblemError(f"the folder of the report's tables is needed in {FOLDER}")
    origin, prices = problem.origin, len(problem.reuse_prices)
    source = origin.get("corpus_source_path")
    costs = [
        (int(row["best_reuse_cost"]), row["certified_optimal"])
        for row in _rows(LIFTED)
        if (row["corpus_source_path"], row["features"]) == (source, f"reuse_edges={prices}")
        and (row["capacity"], row["best_capacity_overflow"]) == (str(problem.capacity), "0")
    ]
    if origin.get("dsa_rp_edge_policy") == "soft_v1":
        kernel = (source, origin.get("dsa_rp_source_instance"), str(prices))
        found = {
            (int(row["best_known_cost"]), row["optimum_proven"])
            for row in _rows(COMPILER)
            if (row["source_path"], row["source_instance"], row["edges"]) == kernel
        }
        # Kernels that the tables do not tell apart have no figure, unless it is the same.
        costs += found if len(found) == 1 else ()
    if not costs:
        return Findings(reason="the report has no such instance")
    least = min(cost for cost, _ in costs)
    proven = (least, "true") in costs
    return Findings(
        reason="a figure of the report", statistics={"reported": least, "reported_proven": proven}
    )


def _rows(name: str) -> list[dict[str, str]]:
    with Path(os.environ[FOLDER], name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
