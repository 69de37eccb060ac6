"""The slot `aims`: what a planner was to prove, within which time, and whether it did.

Each aim is a table ``[[page.aims]]`` of the study: ``says``, ``planner``, ``instances`` as names or
wildcards, and ``seconds``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from evaluation.findings.cost_of_planning import is_of, planning_seconds, values_of
from evaluation.findings.proof_tables import worst_peak
from evaluation.report.cases import Case
from evaluation.report.slots import PageMaterial, slot
from planners.errors import GaplessError
from planners.text.byte_units import three_digits
from planners.text.table import Row, Table, columns_of

OF_AN_AIM = {"says", "planner", "instances", "seconds"}


@slot("aims")
def _aims(material: PageMaterial) -> str:
    rows = []
    for aim in material.words.get("aims", ()):
        if aim.keys() != OF_AN_AIM:
            raise GaplessError(
                f"study {material.name}: each of [[page.aims]] needs "
                f"{', '.join(sorted(OF_AN_AIM))}, found {', '.join(sorted(aim))}"
            )
        cases = [case for case in material.cases if _is_meant(case, aim)]
        if cases:
            rows.append(Row(_cells(aim, cases)))
    headings = ("aim", "within (s)", "proven", "slowest (s)", "reached")
    return Table(columns_of(*headings), rows).markdown() if rows else ""


def _is_meant(case: Case, aim: Mapping[str, Any]) -> bool:
    return is_of(case.records[0], aim["planner"]) and any(
        fnmatchcase(case.facts.instance, pattern) for pattern in aim["instances"]
    )


def _cells(aim: Mapping[str, Any], cases: Sequence[Case]) -> list[str]:
    proven = sum(worst_peak(case) == case.facts.lower_bound for case in cases)
    runs = [record for case in cases for record in case.records]
    seconds = values_of(runs, planning_seconds)
    # A run without a time was killed.
    slowest = max(seconds) if len(seconds) == len(runs) else float("inf")
    reached = proven == len(cases) and slowest < aim["seconds"]
    return [
        aim["says"], f"{aim['seconds']:g}", f"{proven} of {len(cases)}", three_digits(slowest),
        "yes" if reached else "**no**",
    ]  # fmt: skip
