"""A claim of a paper about figures of cases, and the verdict on it."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from evaluation.study.typed_values import typed
from planners.errors import InstanceError, errors_at
from planners.text.plain_text import shown

# Figures by case, such as a network; None if the figure of a case was not measured.
Figures = Mapping[str, float | None]


Text = Annotated[str, Meta(min_length=1, description="a text")]
Cases = Annotated[tuple[str, ...], Meta(description="a list of names of cases")]


class Claim(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A claim of a paper in our words, and the condition under which it holds.

    Parameters
    ----------
    key
        Name of the claim within its study.
    says, where
        The claim, and the section or table that makes it.
    paper
        The paper's own figure, as text.
    figure
        Name of the figure that the claim is about; each case has one. Empty if nothing here
        measures the figure; ``says_why`` then gives the reason.
    unit
        ``percent``, ``times``, ``seconds``, ``count`` or ``yes`` (1 is yes, 0 is no).
    at_least, at_most
        Limits of the figure of a case that agrees; None for no limit.
    cases_needed
        Number of cases that have to agree; None for all.
    only, without
        The cases that the claim is about or not about; all cases if both are empty.
    of_mean
        True if the mean of all cases has to agree instead of single cases.
    """

    key: str = ""
    says: Text
    where: Text
    paper: Text
    figure: str = ""
    unit: Literal["percent", "times", "seconds", "count", "yes"] = "percent"
    at_least: float | None = None
    at_most: float | None = None
    cases_needed: Annotated[int, Meta(ge=1, description="a whole number of at least 1")] | None = (
        None
    )
    only: Cases = ()
    without: Cases = ()
    of_mean: bool = False
    says_why: str = ""

    def agrees(self, figure: float) -> bool:
        """Return True if the figure of a case is within the claim's limits."""
        least, most = self.at_least, self.at_most
        return (least is None or figure >= least) and (most is None or figure <= most)

    def judge(self, figures: Figures) -> Verdict:
        """Return the verdict on the claim from the figures of cases."""
        about = {
            case: figure
            for case, figure in figures.items()
            if case not in self.without and (not self.only or case in self.only)
        }
        known = {case: figure for case, figure in about.items() if figure is not None}
        agreeing = tuple(case for case, figure in known.items() if self.agrees(figure))
        return Verdict(self, known, agreeing, self._holds(about, known, agreeing))

    def _holds(
        self, about: Figures, known: Mapping[str, float], agreeing: tuple[str, ...]
    ) -> bool | None:
        """Return True or False if the known cases decide the claim, else None."""
        if not known:
            return None
        if self.of_mean:
            return self.agrees(mean(known.values())) if len(known) == len(about) else None
        needed = len(about) if self.cases_needed is None else self.cases_needed
        if len(agreeing) >= needed:
            return True
        return None if len(agreeing) + len(about) - len(known) >= needed else False


class Verdict(Struct, frozen=True):
    """The outcome of a claim."""

    claim: Claim
    # Figures of the measured cases that the claim is about.
    figures: Mapping[str, float]
    # The cases that agree with the claim.
    agreeing: tuple[str, ...]
    # None if too few cases were measured to decide.
    holds: bool | None


def claims_of(page: Mapping[str, Any]) -> tuple[Claim, ...]:
    """Return the claims in the table ``page`` of a study, in their order.

    Raises ``InstanceError`` for a faulty claim.
    """
    tables = page.get("claim", {})
    if not isinstance(tables, dict):
        raise InstanceError(f"page.claim: a table for each claim is needed, found {shown(tables)}")
    return tuple(_claim(key, table) for key, table in tables.items())


def _claim(key: str, table: Any) -> Claim:
    with errors_at(f"page.claim.{key}"):
        claim: Claim = typed(table, Claim)
        if claim.key:
            raise InstanceError(f"field key: the name of its table is its key, found {claim.key!r}")
        if bool(claim.figure) == bool(claim.says_why):
            raise InstanceError(
                f"one of figure and says_why (the reason why nothing measures it) is needed, found "
                f"{'both' if claim.figure else 'neither'}"
            )
        if claim.figure and claim.at_least is None and claim.at_most is None:
            raise InstanceError("at_least or at_most is needed, found neither")
    return replace(claim, key=key)
