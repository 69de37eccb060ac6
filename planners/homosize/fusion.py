"""Fusion: the smaller of two adjacent local plans is inserted into the larger."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from planners import _core
from planners.homosize.homophase import LocalPlan, plan_locally, stacking_order
from planners.homosize.paper_variant import PaperVariant
from planners.model.budget import Budget


@dataclass(frozen=True)
class FusionAttempt:
    """The merit, see :func:`merit`, of two adjacent plans and of the fused ones."""

    before: Fraction
    after: Fraction

    @property
    def accepted(self) -> bool:
        """True if the fusion leaves a smaller share of the memory to bubbles."""
        return self.after > self.before


def fuse_adjacent(
    plans: list[LocalPlan], paper_variant: PaperVariant, budget: Budget | None = None
) -> tuple[list[LocalPlan], list[FusionAttempt]]:
    """Fuse adjacent plans while their merit grows.

    Note: why this ends. A fusion without leftover guests leaves one plan less. A fusion with
    leftover guests keeps the number of plans. But then the plan whose turn it is never shrinks,
    cannot exceed all requests end to end, and gains a request whenever its size stays the same.

    Source: Huang et al. 2026, section 5.1, HomoPhase Group Planning.
    """
    waiting = list(plans)
    result: list[LocalPlan] = []
    trials: list[FusionAttempt] = []
    while waiting:
        plan = waiting.pop(0)
        while paper_variant.fusion and (
            found := _find_partner(plan, waiting, trials, paper_variant, budget)
        ):
            partner, (plan, *rest) = found
            waiting[partner : partner + 1] = rest
            if not paper_variant.again:
                break
        result.append(plan)
    return result, trials


def fuse(
    one: LocalPlan, other: LocalPlan, paper_variant: PaperVariant, budget: Budget | None = None
) -> list[LocalPlan]:
    """Insert the smaller of two plans into the larger, by the published stepping.

    Of equal sizes the first plan is the host. Guests that find no place form a plan of their own.
    """
    host, guest = host_and_guest(one, other)
    guests = guest.requests.select(np.lexsort((guest.requests.tensor, guest.requests.start)))
    address = _core.fuse_local_plans(
        host.requests.size, host.requests.start, host.requests.end, host.address,
        guests.size, guests.start, guests.end, paper_variant.leftover == "group",
        math.inf if budget is None else budget.remaining_seconds(),
    )  # fmt: skip
    placed = address >= 0
    fused = LocalPlan(
        host.requests.joined(guests.select(placed)),
        np.concatenate([host.address, address[placed]]),
        min(one.phase_start, other.phase_start),
        max(one.phase_end, other.phase_end),
    )
    if placed.all():
        return [fused]
    rest = guests.select(~placed)
    rest_plan = plan_locally(rest.select(stacking_order(rest, paper_variant)), paper_variant)
    return [
        fused,
        replace(rest_plan, phase_start=guest.phase_start, phase_end=guest.phase_end),
    ]


def host_and_guest(one: LocalPlan, other: LocalPlan) -> tuple[LocalPlan, LocalPlan]:
    """Return the larger of two plans, then the other; of equal sizes the first is the host."""
    return (one, other) if one.size >= other.size else (other, one)


def are_adjacent(one: LocalPlan, other: LocalPlan) -> bool:
    """Return True if one plan ends in the phase in which the other starts."""
    return one.phase_end == other.phase_start or other.phase_end == one.phase_start


def merit(plans: Sequence[LocalPlan], paper_variant: PaperVariant) -> Fraction:
    """Return the number that a fusion has to raise to be accepted."""
    if paper_variant.acceptance == "product":
        return plans[0].product * plans[-1].product
    weights = [
        {"reserved": plan.reserved, "bytes": plan.size, "requests": plan.requests.count}[
            paper_variant.weight
        ]
        for plan in plans
    ]
    terms = (weight * plan.product for weight, plan in zip(weights, plans, strict=True))
    return sum(terms, Fraction()) / sum(weights)


def _find_partner(
    plan: LocalPlan,
    waiting: list[LocalPlan],
    trials: list[FusionAttempt],
    paper_variant: PaperVariant,
    budget: Budget | None,
) -> tuple[int, list[LocalPlan]] | None:
    """Return the index of the waiting plan to fuse with, and the resulting plans; or None."""
    best: tuple[int, list[LocalPlan]] | None = None
    most_saved = 0
    for index, partner in enumerate(waiting):
        if not are_adjacent(plan, partner):
            continue
        fused = fuse(plan, partner, paper_variant, budget)
        trial = FusionAttempt(merit([plan, partner], paper_variant), merit(fused, paper_variant))
        trials.append(trial)
        if not trial.accepted:
            continue
        saved = plan.reserved + partner.reserved - sum(part.reserved for part in fused)
        if best is None or saved > most_saved:
            best, most_saved = (index, fused), saved
        if paper_variant.partner == "first":
            break
    return best
