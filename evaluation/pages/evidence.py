"""Outcomes on the claims of a study, from figures of cases that the study's file defines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

from evaluation.pages.claim import Condition, Figures, Outcome, PaperClaim, claims_of
from evaluation.pages.figure_texts import NOTHING, percent
from evaluation.pages.frames import Frames
from evaluation.pages.page_material import PageMaterial
from evaluation.pages.table_file import EvidenceText, read_text
from planners.errors import GaplessError, InstanceError, errors_at, near_names
from planners.text.byte_units import counted, three_digits
from planners.text.plain_text import Markdown
from planners.text.table import Row, Table, columns_of


@dataclass(frozen=True)
class JudgedClaim:
    """The outcomes on a claim from our records and from the paper's own tables."""

    ours: Outcome
    # Has no figures if the paper prints no table.
    theirs: Outcome

    @property
    def claim(self) -> PaperClaim:
        """The claim that was judged."""
        return self.ours.claim


def claims_table(judged: Sequence[JudgedClaim]) -> str:
    """Return a row for each claim: the paper's figure, the outcome of its own tables, and ours.

    The column of the paper's own tables is left out if the paper prints none.
    """
    has_tables = any(each.theirs.figures for each in judged)
    rows = [
        Row((
            each.claim.key, *map(Markdown, (each.claim.says, each.claim.where, each.claim.paper)),
            *([summary(each.theirs)] if has_tables else []), summary(each.ours), _word(each.ours),
        ))
        for each in judged
    ]  # fmt: skip
    headings = ("", "claim", "where", "its figure", *(["its own tables"] if has_tables else []),
                "here", "")  # fmt: skip
    return Table(columns_of(*headings, left=3), rows).markdown()


def figures_table(judged: Sequence[JudgedClaim]) -> str:
    """Return the figures that disagree with claims, in bold, and others of the same cases."""
    false = [each.ours for each in judged if each.ours.holds is False and not each.claim.reason]
    cases = dict.fromkeys(case for its in false for case in its.figures if case not in its.agreeing)
    rows = [Row((case, *(_cell(outcome, case) for outcome in false))) for case in cases]
    if not rows:
        return ""
    return Table(columns_of("", *(each.claim.key for each in false)), rows).markdown()


def reasons_list(judged: Sequence[JudgedClaim]) -> str:
    """Return a line for each claim that nothing here measures, with the reason."""
    return "\n".join(
        f"- {each.claim.key}: {each.claim.reason}" for each in judged if each.claim.reason
    )


def summary(outcome: Outcome) -> str:
    """Return the range of the figures, and the number of cases that agree with the claim."""
    figures, rule = outcome.figures.values(), outcome.claim.condition
    if rule is None or not figures:
        return NOTHING
    if rule.of_mean:
        return f"{figure_text(rule, mean(figures))} in the mean of {len(figures)}"
    agreeing = f"{len(outcome.agreeing)} of {len(figures)}"
    if rule.unit == "yes":
        return agreeing
    least, most = figure_text(rule, min(figures)), figure_text(rule, max(figures))
    if len(figures) == 1:
        return least
    return f"{least if least == most else f'{least} to {most}'}; {agreeing}"


def figure_text(rule: Condition, figure: float) -> str:
    """Return a figure in the unit of its claim."""
    if rule.unit == "%":
        return percent(figure)
    if rule.unit == "yes":
        return "yes" if figure else "no"
    if not rule.unit:
        return f"{figure:,.0f}"
    text = three_digits(figure) if figure >= 0 else f"-{three_digits(-figure)}"
    return text + {"x": "x", "s": " s"}[rule.unit]


def _cell(outcome: Outcome, case: str) -> str:
    rule = outcome.claim.condition
    if rule is None or case not in outcome.figures:
        return NOTHING
    text = figure_text(rule, outcome.figures[case])
    return text if case in outcome.agreeing else Markdown(f"**{text}**")


def _word(outcome: Outcome) -> str:
    """Return the outcome in words; an outcome on few cases says their number."""
    claim = outcome.claim
    if outcome.holds is None or claim.reason:
        return "not measured"
    word = f"not {claim.unlike}" if claim.unlike else "**false**"
    word = "true" if outcome.holds else word
    few = len(outcome.figures)
    return Markdown(word if few >= MANY_CASES else f"{word}, on {counted(few, 'run')} only")


# An outcome on fewer cases says how few they are.
MANY_CASES = 5
# The frame of the rows of the evidence that is being judged.
ROWS = "evidence"
# Value of the column ``source`` in rows that a paper prints.
PAPER = "paper"


@dataclass(frozen=True)
class Evidence:
    """Cases of one kind, such as networks, and formulas of their figures."""

    where: str
    text: EvidenceText
    frames: Frames

    def figures(self, rule: Condition, formula: str) -> tuple[Figures, Figures]:
        """Return the figure of each case from our records, and from the paper."""
        cases = self.text.cases
        for name in (*rule.only, *rule.without):
            if name not in cases:
                raise InstanceError(f"no case is called {name!r}; {near_names(name, cases)}")
        ours: dict[str, float | None] = dict.fromkeys(cases)
        theirs = dict(ours)
        with errors_at(f"{self.where}: figure {rule.figure}"):
            self.frames.keep(ROWS, self.text.sql)
            keys = [self.text.case, *["source"] * self.frames.has_column(ROWS, "source")]
            for (case, *source), values in self.frames.values(ROWS, keys, [formula]):
                figure = values[formula]
                if isinstance(figure, str | list):
                    raise InstanceError(f"a number is needed, found {figure!r}")
                if case in ours:
                    side = theirs if source == [PAPER] else ours
                    side[case] = None if figure is None else float(figure)
        return ours, theirs


def judged_claims(material: PageMaterial) -> list[JudgedClaim]:
    """Return the outcomes on the claims of a study from its records."""
    texts = material.words.get("evidence")
    if not isinstance(texts, dict) or not texts:
        raise GaplessError(
            f"study {material.name}: page.evidence is needed, the figures to compare claims with, "
            f"found none"
        )
    evidence = [
        Evidence(where, read_text(where, text, EvidenceText), material.frames)
        for name, text in texts.items()
        if (where := f"page.evidence.{name}")
    ]
    return [_judged(claim, evidence) for claim in claims_of(material.words)]


def _judged(claim: PaperClaim, evidence: Sequence[Evidence]) -> JudgedClaim:
    nothing: Outcome = claim.judge({})
    rule = claim.condition
    if rule is None:
        return JudgedClaim(nothing, nothing)
    with errors_at(f"page.claims, {claim.key}"):
        for its in evidence:
            if formula := its.text.figures.get(rule.figure):
                ours, theirs = its.figures(rule, formula)
                return JudgedClaim(claim.judge(ours), claim.judge(theirs))
        known = [name for its in evidence for name in its.text.figures]
        raise InstanceError(
            f"no figure is called {rule.figure!r}; {near_names(rule.figure, known)}"
        )


CLAIM_SLOTS: Mapping[str, Callable[[PageMaterial], str]] = {
    "claims": lambda material: claims_table(judged_claims(material)),
    "claim-figures": lambda material: figures_table(judged_claims(material)),
    "claims-not-measured": lambda material: reasons_list(judged_claims(material)),
}
