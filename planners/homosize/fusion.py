"""Fusion: the smaller of two adjacent local plans is inserted into the larger."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from planners import _core
from planners.budget import Budget
from planners.homosize.choices import Choices
from planners.homosize.homophase import LocalPlan
from planners.homosize.requests import Requests


@dataclass(frozen=True)
class Fusion:
    """Two plans that became one.

    Parameters
    ----------
    host, guest
        The larger plan, and the one that was inserted into it.
    fused
        What came of it.
    before
        Weighted average of the two products.
    """

    host: LocalPlan
    guest: LocalPlan
    fused: LocalPlan
    before: Fraction

    @property
    def after(self) -> Fraction:
        """Product of the fused plan."""
        return self.fused.product

    @property
    def saved(self) -> int:
        """Byte-steps that are no longer reserved."""
        return self.host.reserved + self.guest.reserved - self.fused.reserved


def fuse_adjacent(
    plans: list[LocalPlan], choices: Choices, budget: Budget | None = None
) -> tuple[list[LocalPlan], list[Fusion]]:
    """Fuse adjacent plans as long as the product of the fused one exceeds the average of the two.

    Parameters
    ----------
    plans
        In the order in which they look for a partner; each looks among those behind it.
    choices
        ``fusion``, ``partner``, ``again`` and ``weight`` are used.
    budget
        Limits; none by default.

    Returns
    -------
    plans : list of LocalPlan
        What was fused stands where the first of its plans stood.
    fusions : list of Fusion
        Those that were accepted, in order.

    Raises
    ------
    TimeoutError
        The time limit passed.

    References
    ----------
    stweaver-spatio-temporal-planning, section 5.1, HomoPhase Group Planning.
    """
    waiting = list(plans)
    result: list[LocalPlan] = []
    fusions: list[Fusion] = []
    while waiting:
        plan = waiting.pop(0)
        while choices.fusion and (found := _find_partner(plan, waiting, choices, budget)):
            partner, fusion = found
            waiting.pop(partner)
            fusions.append(fusion)
            plan = fusion.fused
            if not choices.again:
                break
        result.append(plan)
    return result, fusions


def fuse(one: LocalPlan, other: LocalPlan, budget: Budget | None = None) -> LocalPlan:
    """Insert the smaller of two plans into the larger, by the published stepping.

    Parameters
    ----------
    one, other
        Of equal sizes the first is the host.
    budget
        Limits; none by default.

    Returns
    -------
    LocalPlan
        The host's requests where they were, then the guest's by their starts.

    Raises
    ------
    TimeoutError
        The time limit passed.
    """
    host, guest = (one, other) if one.size >= other.size else (other, one)
    guests = guest.requests.select(np.lexsort((guest.requests.tensor, guest.requests.start)))
    address = _core.fuse_local_plans(
        host.requests.size, host.requests.start, host.requests.end, host.address,
        guests.size, guests.start, guests.end,
        math.inf if budget is None else budget.remaining_seconds(),
    )  # fmt: skip
    return LocalPlan(
        _joined(host.requests, guests),
        np.concatenate([host.address, address]),
        min(one.phase_start, other.phase_start),
        max(one.phase_end, other.phase_end),
    )


def are_adjacent(one: LocalPlan, other: LocalPlan) -> bool:
    """Return whether the phase in which one plan ends is the one in which the other starts."""
    return one.phase_end == other.phase_start or other.phase_end == one.phase_start


def average_product(one: LocalPlan, other: LocalPlan, choices: Choices) -> Fraction:
    """Return the weighted average of two products.

    Parameters
    ----------
    one, other
        The two plans.
    choices
        ``weight`` is used.

    Returns
    -------
    Fraction
        Exact.
    """
    weights = {
        "reserved": (one.reserved, other.reserved),
        "bytes": (one.size, other.size),
        "requests": (one.requests.count, other.requests.count),
    }[choices.weight]
    return (weights[0] * one.product + weights[1] * other.product) / sum(weights)


def _find_partner(
    plan: LocalPlan, waiting: list[LocalPlan], choices: Choices, budget: Budget | None
) -> tuple[int, Fusion] | None:
    best: tuple[int, Fusion] | None = None
    for index, partner in enumerate(waiting):
        if not are_adjacent(plan, partner):
            continue
        before = average_product(plan, partner, choices)
        host, guest = (plan, partner) if plan.size >= partner.size else (partner, plan)
        fusion = Fusion(host, guest, fuse(plan, partner, budget), before)
        if fusion.after <= before:
            continue
        if choices.partner == "first":
            return index, fusion
        if best is None or fusion.saved > best[1].saved:
            best = index, fusion
    return best


def _joined(one: Requests, other: Requests) -> Requests:
    return Requests(
        np.concatenate([one.tensor, other.tensor]),
        np.concatenate([one.size, other.size]),
        np.concatenate([one.start, other.start]),
        np.concatenate([one.end, other.end]),
        np.concatenate([one.phase_start, other.phase_start]),
        np.concatenate([one.phase_end, other.phase_end]),
    )
