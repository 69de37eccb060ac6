"""What the claims of a study are held against: figures of cases, as the study's file has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evaluation.report.slots import PageMaterial, slot
from evaluation.tables.claim import Claim, Figures, Verdict
from evaluation.tables.claim_file import claims_of
from evaluation.tables.claim_tables import JudgedClaim, claims_table, figures_table, reasons_list
from evaluation.tables.expression import Expression, is_known, require_columns
from evaluation.tables.filled_table import Frames
from evaluation.tables.table_file import EvidenceText, read_evidence
from planners.errors import GaplessError, InstanceError, near_names

if TYPE_CHECKING:
    from pandas import DataFrame

# What the column ``source`` says of rows that a paper prints.
PAPER = "paper"


@dataclass(frozen=True)
class Evidence:
    """Cases of one kind, such as networks, with the rows of each, and formulas of their figures."""

    text: EvidenceText
    rows: DataFrame

    def figures(self, claim: Claim, formula: Expression, *, published: bool) -> Figures:
        """Return the figure of each case, from our own rows or from those that the paper prints."""
        cases = self.text.cases
        for name in (*claim.only, *claim.without):
            if name not in cases:
                raise InstanceError(
                    f"page.claim.{claim.key}: no case is called {name!r}; {near_names(name, cases)}"
                )
        rows = self.rows
        has_source = "source" in rows.columns
        if has_source:
            rows = rows[(rows["source"] == PAPER) == published]
        found: dict[str, float | None] = dict.fromkeys(cases)
        for name in cases if has_source or not published else ():
            its = rows[rows[self.text.case] == name]
            figure = formula.one(its) if len(its) else None
            if isinstance(figure, str):
                raise InstanceError(f"{formula.where}: a number is needed, found {figure!r}")
            found[name] = float(figure) if figure is not None and is_known(figure) else None
        return found


def judged_claims(material: PageMaterial) -> list[JudgedClaim]:
    """Hold the claims of a study against its records."""
    texts = material.words.get("evidence")
    if not isinstance(texts, dict) or not texts:
        raise GaplessError(
            f"study {material.name}: page.evidence is needed, which says what claims are held "
            f"against, found none"
        )
    frames: Frames = material.frames
    evidence = [_evidence(f"page.evidence.{name}", text, frames) for name, text in texts.items()]
    return [_judged(claim, evidence) for claim in claims_of(material.words)]


def _evidence(where: str, text: Mapping[str, Any], frames: Frames) -> Evidence:
    its = read_evidence(where, text)
    rows = frames.rows(its.steps)
    require_columns([its.case], rows, f"{where}.case")
    return Evidence(its, rows)


def _judged(claim: Claim, evidence: Sequence[Evidence]) -> JudgedClaim:
    nothing: Verdict = claim.judge({})
    if not claim.figure:
        return JudgedClaim(nothing, nothing)
    for its in evidence:
        if formula := its.text.figures.get(claim.figure):
            ours, theirs = (its.figures(claim, formula, published=each) for each in (False, True))
            return JudgedClaim(claim.judge(ours), claim.judge(theirs))
    known = [name for its in evidence for name in its.text.figures]
    raise InstanceError(
        f"page.claim.{claim.key}.figure: none is called {claim.figure!r}; "
        f"{near_names(claim.figure, known)}"
    )


@slot("claims")
def _claims(material: PageMaterial) -> str:
    return claims_table(judged_claims(material))


@slot("claim-figures")
def _claim_figures(material: PageMaterial) -> str:
    return figures_table(judged_claims(material))


@slot("claims-not-measured")
def _claims_not_measured(material: PageMaterial) -> str:
    return reasons_list(judged_claims(material))
