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
class Trial:
    """Two adjacent plans, and what came of fusing them.

    Parameters
    ----------
    host_phases, guest_phases
        First and last phase of the larger plan, and of the one that was inserted into it.
    host_size, guest_size, fused_size
        Bytes.
    before
        Weighted average of the two products.
    after
        Product of the fused plan.
    """

    host_phases: tuple[int, int]
    guest_phases: tuple[int, int]
    host_size: int
    guest_size: int
    fused_size: int
    before: Fraction
    after: Fraction

    @property
    def accepted(self) -> bool:
        """Whether the fused plan leaves a smaller share to bubbles."""
        return self.after > self.before


def fuse_adjacent(
    plans: list[LocalPlan], choices: Choices, budget: Budget | None = None
) -> tuple[list[LocalPlan], list[Trial]]:
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
    trials : list of Trial
        What was tried, in order.

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
    trials: list[Trial] = []
    while waiting:
        plan = waiting.pop(0)
        while choices.fusion and (found := _find_partner(plan, waiting, trials, choices, budget)):
            partner, plan = found
            waiting.pop(partner)
            if not choices.again:
                break
        result.append(plan)
    return result, trials


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
    host, guest = host_and_guest(one, other)
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


def host_and_guest(one: LocalPlan, other: LocalPlan) -> tuple[LocalPlan, LocalPlan]:
    """Return the larger of two plans, then the other; of equal sizes the first is the host."""
    return (one, other) if one.size >= other.size else (other, one)


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
    plan: LocalPlan,
    waiting: list[LocalPlan],
    trials: list[Trial],
    choices: Choices,
    budget: Budget | None,
) -> tuple[int, LocalPlan] | None:
    """Return which of the waiting plans is fused with this one, and the fused plan."""
    best: tuple[int, LocalPlan] | None = None
    most_saved = 0
    for index, partner in enumerate(waiting):
        if not are_adjacent(plan, partner):
            continue
        fused = fuse(plan, partner, budget)
        trial = _trial(plan, partner, fused, choices)
        trials.append(trial)
        if not trial.accepted:
            continue
        saved = plan.reserved + partner.reserved - fused.reserved
        if best is None or saved > most_saved:
            best, most_saved = (index, fused), saved
        if choices.partner == "first":
            break
    return best


def _trial(one: LocalPlan, other: LocalPlan, fused: LocalPlan, choices: Choices) -> Trial:
    host, guest = host_and_guest(one, other)
    return Trial(
        (host.phase_start, host.phase_end),
        (guest.phase_start, guest.phase_end),
        host.size,
        guest.size,
        fused.size,
        average_product(one, other, choices),
        fused.product,
    )


def _joined(one: Requests, other: Requests) -> Requests:
    return Requests(
        np.concatenate([one.tensor, other.tensor]),
        np.concatenate([one.size, other.size]),
        np.concatenate([one.start, other.start]),
        np.concatenate([one.end, other.end]),
        np.concatenate([one.phase_start, other.phase_start]),
        np.concatenate([one.phase_end, other.phase_end]),
    )
