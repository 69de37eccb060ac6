"""The slots of papers' pages: claims with what came out of them, and tables beside the paper's."""

from __future__ import annotations

from evaluation.claims.claim_file import claims_of
from evaluation.claims.claim_tables import claims_table, figures_table, reasons_list
from evaluation.claims.evidence import JudgedClaim, judge_claims
from evaluation.claims.offset_tables import large_table, planner_tables
from evaluation.claims.papers import EVIDENCE
from evaluation.claims.replay_tables import (
    composition_table,
    efficiency_table,
    parts_table,
    plan_seconds_table,
)
from evaluation.claims.safety import drawn_table, safety_table, verdict_table
from evaluation.report.slots import PageMaterial, slot
from planners.errors import GaplessError, near_names


def judged_claims(material: PageMaterial) -> list[JudgedClaim]:
    """Hold the claims of a study against its records."""
    if material.name not in EVIDENCE:
        raise GaplessError(
            f"study {material.name}: no claims can be judged; {near_names(material.name, EVIDENCE)}"
        )
    return judge_claims(claims_of(material.words), EVIDENCE[material.name], material.records)


@slot("claims")
def _claims(material: PageMaterial) -> str:
    return claims_table(judged_claims(material))


@slot("claim-figures")
def _claim_figures(material: PageMaterial) -> str:
    return figures_table(judged_claims(material))


@slot("claims-not-measured")
def _claims_not_measured(material: PageMaterial) -> str:
    return reasons_list(judged_claims(material))


@slot("offset-tables")
def _offset_tables(material: PageMaterial) -> str:
    return "\n\n".join(planner_tables(material.records))


@slot("large-network-table")
def _large_network_table(material: PageMaterial) -> str:
    return large_table(material.records)


@slot("safety-table")
def _safety_table(material: PageMaterial) -> str:
    return safety_table(material.records)


@slot("safety-verdict")
def _safety_verdict(material: PageMaterial) -> str:
    return verdict_table(material.records)


@slot("safety-of-drawn-graphs")
def _safety_of_drawn_graphs(material: PageMaterial) -> str:
    return drawn_table(material.records)


@slot("allocators-table")
@slot("stweaver-parts-table")
def _parts_table(material: PageMaterial) -> str:
    return parts_table(material.records)


@slot("stweaver-composition-table")
def _composition_table(material: PageMaterial) -> str:
    return composition_table(material.records)


@slot("plan-seconds-table")
def _plan_seconds_table(material: PageMaterial) -> str:
    return plan_seconds_table(material.records)


@slot("plan-efficiency-table")
def _plan_efficiency_table(material: PageMaterial) -> str:
    return efficiency_table(material.records)
