"""Greedy: what frees most for its seconds runs again, or is sent away, first.

Note [Greedy in rounds]
~~~~~~~~~~~~~~~~~~~~~~~
Rationale. What an offer frees depends on what is chosen already. To judge all offers anew after
each choice takes time that grows with the square of the step.

Approach. Each round ranks all offers by an estimate: the bytes above the limit that an offer frees,
for its seconds. Sums over the places of the sequence give the estimates of all offers at once. The
round then chooses the shortest beginning of the ranking that halves the bytes above the limit by
their true count; doubling and bisection find its length. Copies may hide behind the nodes. So each
round ranks them three times, and takes the cheapest choice: at no price, which puts large tensors
first; at nearly none, which puts first what frees most for each byte that is sent; and at their
full price. If this ends above the limit, a second attempt ranks the offers by the true count of
each. In the end, what turned out to be superfluous is left out again: large parts of the choice
first, then parts of these, the most expensive first.

Limits. A true count takes time in proportion to the step. Their number is at most a power of the
logarithm of the number of offers; the second attempt counts no more than the first so many offers.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cache

import numpy as np
from numpy.typing import NDArray

from planners.model.columns import BoolColumn, IntColumn
from planners.recompute.limit_planner import LimitAnswer, LimitQuestion, register
from planners.recompute.repeatable_step import Choice
from planners.recompute.savings import savings

# Below this, seconds are rounding errors.
LEAST_SECONDS = 1e-15
# Copies at this part of their price cost less than any unit.
NEARLY_NONE = 1e-6
# After so many halvings, less than a byte is above the limit, whatever the step.
MOST_ROUNDS = 63


@register("greedy", summary="first what frees most bytes above the limit for its seconds")
def greedy(question: LimitQuestion) -> LimitAnswer:
    """Choose in rounds; then leave out again what turned out to be superfluous."""
    step, limit = question.step, question.limit
    offers = _Offers(question)
    price = 2 * step.copy_seconds
    prices = (0.0, NEARLY_NONE * price, price) if step.is_sendable.any() else (0.0,)
    for ways in (prices, (None,)):
        chosen = step.choice()
        for _ in range(MOST_ROUNDS):
            seconds, peak, excess = step.cost(chosen, limit)
            if peak <= limit:
                _leave_out(question, chosen)
                return question.answer(chosen)
            found = [offers.halving(chosen, seconds, excess, price) for price in ways]
            (left, _), chosen = min(found, key=lambda each: each[0])
            if left >= excess:
                break
    return question.answer(None)


class _Offers:
    """The offers: groups of units that may run again, then all tensors that may be sent away."""

    def __init__(self, question: LimitQuestion) -> None:
        self._question, self._step = question, question.step
        groups = savings(question).units
        self._heads = np.array([group[-1] for group in groups], dtype=np.int64)
        self._units = np.concatenate([np.empty(0, dtype=np.int64), *groups])
        self._group_of_unit = np.repeat(np.arange(len(groups)), [len(group) for group in groups])

    def halving(
        self, chosen: Choice, seconds: float, excess: float, price: float | None
    ) -> tuple[tuple[float, float], Choice]:
        """Return what a round chooses besides, if a sent byte costs `price` seconds.

        Without a price, the offers are ranked by their true cost. In front stand what is left of
        the bytes above the limit, though no less than half of them, and the seconds: by these,
        choices are compared.
        """
        worth = self._worth(chosen, price or 0.0)
        if price is None:
            worth = self._true_worth(chosen, seconds, excess, worth)
        ranked = np.argsort(-worth, kind="stable")[: int((worth > 0).sum())]

        @cache
        def judged(count: int) -> tuple[float, float]:
            taken = self._with(chosen, ranked[:count])
            self._question.require_time()
            seconds, _, left = self._step.cost(taken, self._question.limit)
            return max(left, excess / 2), seconds

        def is_half(count: int) -> bool:
            return judged(count)[0] == excess / 2

        counts = [min(1 << power, len(ranked)) for power in range(len(ranked).bit_length() + 1)]
        count = next(filter(is_half, counts), None)
        if count is None:
            count = min(counts, key=judged)
        else:
            count = bisect_left(range(count), True, count // 2 + 1, key=is_half)
        return judged(count), self._with(chosen, ranked[:count])

    def _with(self, chosen: Choice, offers: IntColumn) -> Choice:
        taken = np.zeros(len(self._heads) + self._step.graph.tensor_count, dtype=bool)
        taken[offers] = True
        choice = Choice(chosen.repeated.copy(), chosen.sent.copy())
        choice.repeated[self._units[taken[self._group_of_unit]]] = 1
        choice.sent[taken[len(self._heads) :]] = 1
        return choice

    def _worth(self, chosen: Choice, price: float) -> NDArray[np.float64]:
        """Return the bytes above the limit that each offer frees a second, by an estimate."""
        step = self._step
        sequence = step.late_sequence(chosen)
        over = np.maximum(step.core.live_bytes(sequence) - self._question.limit, 0.0)
        # The place of the first run of each node, and the end of the sequence.
        place = np.append(np.unique(sequence, return_index=True)[1], 0)
        place[step.graph.node_count :] = len(sequence)
        begin = place[step.last_early_use] + 1
        end = np.maximum(begin, place[step.first_late_use])
        # A tensor frees no more than its own bytes at a place, and no more than there are above.
        places, bytes_over = (np.append(0.0, np.cumsum(column)) for column in (over > 0, over))
        most = step.problem.size * (places[end] - places[begin])
        freed = np.minimum(most, bytes_over[end] - bytes_over[begin])
        freed[step.first_late_use == step.graph.node_count] = 0
        of_unit = np.bincount(step.unit_of_tensor, freed, step.unit_count)[self._heads]
        seconds = (step.unit_seconds * (1 - chosen.repeated))[self._units]
        costs = np.bincount(self._group_of_unit, seconds, len(self._heads))
        worth = np.append(of_unit, freed)
        worth[~self._are_open(chosen)] = 0
        costs = np.append(costs, price * step.problem.size)
        return worth / np.maximum(costs, LEAST_SECONDS)

    def _true_worth(
        self, chosen: Choice, seconds: float, excess: float, estimate: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the same by the true cost, for the first of the offers by the estimate."""
        worth = np.zeros(len(estimate))
        ranked = np.argsort(-estimate, kind="stable")
        for offer in ranked[self._are_open(chosen)[ranked]][: most_counts(len(estimate))].tolist():
            self._question.require_time()
            more, _, left = self._step.cost(self._with(chosen, offer), self._question.limit)
            worth[offer] = (excess - left) / max(more - seconds, LEAST_SECONDS)
        return worth

    def _are_open(self, chosen: Choice) -> BoolColumn:
        """Return which offers may still be chosen."""
        is_made_again = chosen.repeated[self._step.unit_of_tensor] == 1
        may_be_sent = self._step.is_sendable & (chosen.sent == 0) & ~is_made_again
        return np.append(chosen.repeated[self._heads] == 0, may_be_sent)


def _leave_out(question: LimitQuestion, chosen: Choice) -> None:
    """Take units out of a choice that meets the limit without them."""
    step = question.step
    units = np.flatnonzero(chosen.repeated)
    waiting = [units[np.argsort(-step.unit_seconds[units], kind="stable")]]
    for _ in range(most_counts(len(units))):
        if not waiting or question.budget.remaining_seconds() == 0:
            break
        part = waiting.pop()
        chosen.repeated[part] = 0
        if not question.is_met(chosen):
            chosen.repeated[part] = 1
            if len(part) > 1:
                waiting += np.array_split(part, 2)[::-1]


def most_counts(offers: int) -> int:
    """Return how many true counts are made for so many offers: all of a few hundred."""
    return offers.bit_length() ** 3
