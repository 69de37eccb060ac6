"""A claim of a paper about figures of cases, and its outcome.

Note: a claim is a row
----------------------
A study's file lists its claims as rows of five texts: name, sentence, section, the paper's own
figure, comparison. The comparison is ``FIGURE SIGN NUMBER``, such as ``saved >= 15 %``. Before it
may stand ``mean of``, or a number of cases that have to agree; without either, all have to. Behind
it may stand ``in`` or ``but`` and the cases that the claim is about or not about. A figure that
nothing here measures has ``not measured: REASON`` in place of a comparison.

A sixth text says what is unlike the paper, such as ``on our runs``: a figure that disagrees then
makes nothing false. If it is ``not measured: REASON``, our figure is shown and decides nothing.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import mean
from typing import Any

from evaluation.study.typed_values import typed
from planners.errors import InstanceError, errors_at

# Figures by case, such as a network; None if the figure of a case was not measured.
Figures = Mapping[str, float | None]

NOT_MEASURED = "not measured: "
_CONDITION = re.compile(
    r"(?:(?P<needed>mean|[1-9]\d*) of )?(?P<figure>[a-z][a-z0-9-]*) "
    r"(?P<sign><=|>=|<|>|is|within) (?P<limit>yes|-?\d+(?:\.\d+)?)(?: to (?P<most>\d+(?:\.\d+)?))?"
    r"(?: (?P<unit>%|x|s))?(?: (?P<which>in|but) (?P<cases>.+))?"
)
_SIGNS = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}


@dataclass(frozen=True)
class Condition:
    """The condition under which a claim holds."""

    figure: str
    sign: str
    # The limit and, of a range, its upper end; shares if the unit is ``%``.
    limit: float
    most: float = 0.0
    # ``%``, ``x``, ``s``, ``yes`` (1 is yes, 0 is no), or empty for a number.
    unit: str = ""
    # Number of cases that have to agree; None for all.
    needed: int | None = None
    # True if the mean of all cases has to agree instead of single cases.
    of_mean: bool = False
    # The cases that the claim is about or not about; all cases if both are empty.
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()

    @classmethod
    def read(cls, text: str) -> Condition:
        """Return the condition that a text says."""
        found = _CONDITION.fullmatch(text)
        if found is None or (found["sign"] == "within") != (found["most"] is not None):
            raise InstanceError(
                f"field comparison: FIGURE SIGN NUMBER is needed, such as 'saved >= 15 %', or "
                f"'{NOT_MEASURED}REASON', found {text!r}"
            )
        is_yes = found["limit"] == "yes"
        part = 100 if found["unit"] == "%" else 1
        cases = tuple(found["cases"].split(", ")) if found["cases"] else ()
        is_counted = found["needed"] not in (None, "mean")
        return cls(
            figure=found["figure"],
            sign=">=" if is_yes else found["sign"],
            limit=1.0 if is_yes else float(found["limit"]) / part,
            most=float(found["most"] or 0) / part,
            unit="yes" if is_yes else found["unit"] or "",
            needed=int(found["needed"]) if is_counted else None,
            of_mean=found["needed"] == "mean",
            only=cases if found["which"] == "in" else (),
            without=cases if found["which"] == "but" else (),
        )

    def agrees(self, figure: float) -> bool:
        """Return True if the figure of a case is within the limits."""
        if self.sign == "within":
            return self.limit <= figure <= self.most
        return bool(_SIGNS[self.sign](figure, self.limit))


@dataclass(frozen=True)
class PaperClaim:
    """A claim of a paper in our words; one that nothing measures has no condition."""

    key: str
    says: str
    # The section or table that makes it, and the paper's own figure.
    where: str
    paper: str
    condition: Condition | None
    # The reason why nothing here decides the claim.
    reason: str = ""
    # What differs from the paper, such as its networks; a figure that disagrees is then not false.
    unlike: str = ""

    def judge(self, figures: Figures) -> Outcome:
        """Return the outcome from the figures of cases."""
        rule = self.condition
        if rule is None:
            return Outcome(self, {}, (), None)
        about = {
            case: figure
            for case, figure in figures.items()
            if case not in rule.without and (not rule.only or case in rule.only)
        }
        known = {case: figure for case, figure in about.items() if figure is not None}
        agreeing = tuple(case for case, figure in known.items() if rule.agrees(figure))
        return Outcome(self, known, agreeing, _holds(rule, about, known, agreeing))


@dataclass(frozen=True)
class Outcome:
    """The outcome of a claim."""

    claim: PaperClaim
    # Figures of the measured cases that the claim is about.
    figures: Mapping[str, float]
    # The cases that agree with the claim.
    agreeing: tuple[str, ...]
    # None if too few cases were measured to decide.
    holds: bool | None


def _holds(
    rule: Condition, about: Figures, known: Mapping[str, float], agreeing: tuple[str, ...]
) -> bool | None:
    """Return True or False if the known cases decide the claim, else None."""
    if not known:
        return None
    if rule.of_mean:
        return rule.agrees(mean(known.values())) if len(known) == len(about) else None
    needed = len(about) if rule.needed is None else rule.needed
    if len(agreeing) >= needed:
        return True
    return None if len(agreeing) + len(about) - len(known) >= needed else False


def claims_of(page: Mapping[str, Any]) -> tuple[PaperClaim, ...]:
    """Return the claims in the table ``page`` of a study, in their order."""
    with errors_at("page.claims"):
        rows: list[list[str]] = typed(page.get("claims", []), list[list[str]])
    return tuple(_claim(row) for row in rows)


def _claim(row: list[str]) -> PaperClaim:
    with errors_at(f"page.claims, {row[0] if row else 'a row'}"):
        if len(row) not in (5, 6) or not all(row):
            raise InstanceError(
                f"name, sentence, section, figure and comparison are needed, found {row!r}"
            )
        key, says, where, paper, text = row[:5]
        reason, unlike = _reason(row[-1]), "".join(row[5:])
        rule = None if _reason(text) else Condition.read(text)
        return PaperClaim(key, says, where, paper, rule, reason, "" if reason else unlike)


def _reason(text: str) -> str:
    """Return the reason in ``not measured: REASON``; empty for other texts."""
    return text.removeprefix(NOT_MEASURED) if text.startswith(NOT_MEASURED) else ""
