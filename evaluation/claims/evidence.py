"""What claims are held against: cases of one kind, and the figures that each of them has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from evaluation.claims.claim import Claim, Figures, Verdict
from evaluation.study.record import Record
from planners.errors import InstanceError, near_names

# One thing that a paper has figures of: a network, or a run.
Case = TypeVar("Case")


@dataclass(frozen=True)
class Evidence(Generic[Case]):
    """How records become cases, and cases figures.

    Parameters
    ----------
    cases
        Names of all cases that there are to be, whether they were measured or not.
    measured
        Returns the cases that records have, by name.
    figures
        What each figure of a case is, by its name; None where the case does not have it.
    published
        The paper's own cases, against which its claims are held as well.
    """

    cases: tuple[str, ...]
    measured: Callable[[Sequence[Record]], Mapping[str, Case]]
    figures: Mapping[str, Callable[[Case], float | None]]
    published: Mapping[str, Case] = field(default_factory=dict)

    def measured_figures(self, claim: Claim, records: Sequence[Record]) -> Figures:
        """Return what records say, for a claim about a figure that is found here."""
        return self._figures(claim, self.measured(records))

    def published_figures(self, claim: Claim) -> Figures:
        """Return what the paper's own tables say, for a claim about a figure that is found here."""
        return self._figures(claim, self.published)

    def _figures(self, claim: Claim, found: Mapping[str, Case]) -> Figures:
        for name in (*claim.only, *claim.without):
            if name not in self.cases:
                raise InstanceError(
                    f"page.claim.{claim.key}: no case is called {name!r}; "
                    f"{near_names(name, self.cases)}"
                )
        figure = self.figures[claim.figure]
        return {name: figure(found[name]) if name in found else None for name in self.cases}


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


def judge_claims(
    claims: Sequence[Claim], evidence: Sequence[Evidence[Any]], records: Sequence[Record]
) -> list[JudgedClaim]:
    """Hold claims against records, each by the evidence that has its figure."""
    by_figure = {name: each for each in evidence for name in each.figures}
    judged = []
    for claim in claims:
        ours: Figures = {}
        theirs: Figures = {}
        if claim.figure:
            if claim.figure not in by_figure:
                raise InstanceError(
                    f"page.claim.{claim.key}.figure: none is called {claim.figure!r}; "
                    f"{near_names(claim.figure, by_figure)}"
                )
            its = by_figure[claim.figure]
            ours, theirs = its.measured_figures(claim, records), its.published_figures(claim)
        judged.append(JudgedClaim(claim.judge(ours), claim.judge(theirs)))
    return judged
