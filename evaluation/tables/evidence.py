"""Verdicts on the claims of a study, from figures of cases that the study's file defines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import TYPE_CHECKING, Any

from evaluation.report.figure_texts import NOTHING, percent
from evaluation.report.slots import PageMaterial, slot
from evaluation.tables.claim import Claim, Figures, Verdict, claims_of
from evaluation.tables.expression import Expression, is_known, require_columns
from evaluation.tables.filled_table import Frames
from evaluation.tables.table_file import EvidenceText, read_text
from planners.errors import GaplessError, InstanceError, errors_at, near_names
from planners.text.byte_units import three_digits
from planners.text.table import Row, Table, columns_of

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class JudgedClaim:
    """The verdicts on a claim from our records and from the paper's own tables."""

    ours: Verdict
    # Has no figures if the paper prints no table.
    theirs: Verdict

    @property
    def claim(self) -> Claim:
        """The claim that was judged."""
        return self.ours.claim


def claims_table(judged: Sequence[JudgedClaim]) -> str:
    """Return a row for each claim: the paper's figure, the verdict of its own tables, and ours.

    The column of the paper's own tables is left out if the paper prints none.
    """
    has_tables = any(each.theirs.figures for each in judged)
    rows = [
        Row((
            each.claim.key, each.claim.says, each.claim.where, each.claim.paper,
            *([summary(each.theirs)] if has_tables else []), summary(each.ours), _word(each.ours),
        ))
        for each in judged
    ]  # fmt: skip
    headings = ("", "claim", "where", "its figure", *(["its own tables"] if has_tables else []),
                "here", "")  # fmt: skip
    return Table(columns_of(*headings, left=3), rows).markdown()


def figures_table(judged: Sequence[JudgedClaim]) -> str:
    """Return the figures of the false claims, case by case; figures that disagree are bold."""
    false = [each.ours for each in judged if each.ours.holds is False]
    cases = dict.fromkeys(case for verdict in false for case in verdict.figures)
    rows = [Row((case, *(_cell(verdict, case) for verdict in false))) for case in cases]
    if not rows:
        return ""
    return Table(columns_of("", *(each.claim.key for each in false)), rows).markdown()


def reasons_list(judged: Sequence[JudgedClaim]) -> str:
    """Return a line for each claim that nothing here measures, with the reason."""
    return "\n".join(
        f"- {each.claim.key}: {each.claim.says_why}" for each in judged if each.claim.says_why
    )


def summary(verdict: Verdict) -> str:
    """Return the range of the figures, and the number of cases that agree with the claim."""
    figures, claim = verdict.figures.values(), verdict.claim
    if not figures:
        return NOTHING
    if claim.of_mean:
        return f"{figure_text(claim, mean(figures))} in the mean of {len(figures)}"
    agreeing = f"{len(verdict.agreeing)} of {len(figures)}"
    if claim.unit == "yes":
        return agreeing
    least, most = figure_text(claim, min(figures)), figure_text(claim, max(figures))
    if len(figures) == 1:
        return least
    return f"{least if least == most else f'{least} to {most}'}; {agreeing}"


def figure_text(claim: Claim, figure: float) -> str:
    """Return a figure in the unit of its claim."""
    if claim.unit == "percent":
        return percent(figure)
    if claim.unit == "yes":
        return "yes" if figure else "no"
    if claim.unit == "count":
        return f"{figure:,.0f}"
    text = three_digits(figure) if figure >= 0 else f"-{three_digits(-figure)}"
    return text + {"times": "x", "seconds": " s"}[claim.unit]


def _cell(verdict: Verdict, case: str) -> str:
    if case not in verdict.figures:
        return NOTHING
    text = figure_text(verdict.claim, verdict.figures[case])
    return text if case in verdict.agreeing else f"**{text}**"


def _word(verdict: Verdict) -> str:
    return {True: "true", False: "**false**", None: "not measured"}[verdict.holds]


# Value of the column ``source`` in rows that a paper prints.
PAPER = "paper"


@dataclass(frozen=True)
class Evidence:
    """Cases of one kind, such as networks, with the rows of each, and formulas of their figures."""

    where: str
    text: EvidenceText
    rows: DataFrame

    def figures(self, claim: Claim, formula: Expression, *, published: bool) -> Figures:
        """Return the figure of each case, from our records or, if ``published``, from the paper."""
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
            with errors_at(f"{self.where}: figure {claim.figure}"):
                figure = formula.one(its) if len(its) else None
                if isinstance(figure, str):
                    raise InstanceError(f"a number is needed, found {figure!r}")
            found[name] = float(figure) if figure is not None and is_known(figure) else None
        return found


def judged_claims(material: PageMaterial) -> list[JudgedClaim]:
    """Return the verdicts on the claims of a study from its records."""
    texts = material.words.get("evidence")
    if not isinstance(texts, dict) or not texts:
        raise GaplessError(
            f"study {material.name}: page.evidence is needed, the figures to compare claims with, "
            f"found none"
        )
    frames: Frames = material.frames
    evidence = [_evidence(f"page.evidence.{name}", text, frames) for name, text in texts.items()]
    return [_judged(claim, evidence) for claim in claims_of(material.words)]


def _evidence(where: str, text: Mapping[str, Any], frames: Frames) -> Evidence:
    its = read_text(where, text, EvidenceText)
    rows = frames.rows(its, where)
    require_columns([its.case], rows, f"{where}: field case")
    return Evidence(where, its, rows)


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
