"""Claims and what came out of them, as tables in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

from evaluation.report.figure_texts import percent
from evaluation.tables.claim import Claim, Verdict
from planners.text.byte_units import three_digits
from planners.text.table import Row, Table, columns_of

NOTHING = "-"


@dataclass(frozen=True)
class JudgedClaim:
    """A claim, what came out of it here, and what comes out of the paper's own tables."""

    ours: Verdict
    # Without figures where the paper prints none.
    theirs: Verdict

    @property
    def claim(self) -> Claim:
        """What was said."""
        return self.ours.claim


def claims_table(judged: Sequence[JudgedClaim]) -> str:
    """Return each claim with the paper's figure, what its own tables say, and what comes out.

    What its own tables say is left out where it prints none.
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
    """Return, for each claim that came out false, its figure of each case, what is off in bold."""
    false = [each.ours for each in judged if each.ours.holds is False]
    cases = dict.fromkeys(case for verdict in false for case in verdict.figures)
    rows = [Row((case, *(_cell(verdict, case) for verdict in false))) for case in cases]
    if not rows:
        return ""
    return Table(columns_of("", *(each.claim.key for each in false)), rows).markdown()


def reasons_list(judged: Sequence[JudgedClaim]) -> str:
    """Return why nothing here measures some claims, a line each."""
    return "\n".join(
        f"- {each.claim.key}: {each.claim.says_why}" for each in judged if each.claim.says_why
    )


def summary(verdict: Verdict) -> str:
    """Return the range of the figures, and of how many cases they are as the claim has them."""
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
