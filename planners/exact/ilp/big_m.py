"""The big-M program of offset assignment, and the way back from its solution to integer offsets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from planners.exact.cliques import clique_cover, list_unsafe_pairs, require_unsafe_pairs
from planners.exact.common_unit import ScaledBlocks
from planners.exact.ilp.linear_program import MilpModel
from planners.exact.model_limits import require_room, require_time
from planners.exact.sections import sections_of
from planners.exact.symmetry import symmetry_of
from planners.model.blocks import NOT_PINNED
from planners.model.budget import Budget
from planners.model.columns import IntColumn
from planners.model.plan import Plan
from planners.model.problem import Problem, Safety


@dataclass(frozen=True)
class Disjunction:
    """Two blocks may not lie at a distance ``below < head[second] - head[first] < above``.

    Two tensors give one such range. Chains may give several, if one chain fits into a hole of the
    other. So the order of two blocks is not one decision, but one for each range.
    """

    # Blocks, ``first < second``.
    first: int
    second: int
    # The two ends of the range, in units.
    below: int
    above: int


def disjunctions_of(
    scaled: ScaledBlocks, pairs: IntColumn
) -> tuple[list[Disjunction], dict[tuple[int, int], int]]:
    """Return the disjunctions of blocks with unsafe tensors, and each pair's disjunction by index.

    Two blocks may have several disjunctions, sorted by distance; overlapping ranges are merged. In
    a pair ``(a, b)``, tensor ``a`` is in the ``first`` block.
    """
    turned = scaled.block_of[pairs[:, 0]] > scaled.block_of[pairs[:, 1]]
    a, b = np.where(turned[:, None], pairs[:, ::-1], pairs).T
    apart = scaled.block_of[a] != scaled.block_of[b]
    a, b = a[apart], b[apart]
    ahead = scaled.before[a] - scaled.before[b]
    rows = np.column_stack(
        (
            scaled.block_of[a], scaled.block_of[b],
            ahead - scaled.tensor_size[b], ahead + scaled.tensor_size[a], a, b,
        )
    )  # fmt: skip
    disjunctions: list[Disjunction] = []
    belongs: dict[tuple[int, int], int] = {}
    for first, second, below, above, one, other in rows[np.lexsort(rows.T[::-1])].tolist():
        last = disjunctions[-1] if disjunctions else None
        if last is None or (last.first, last.second) != (first, second) or below >= last.above:
            disjunctions.append(Disjunction(first, second, below, above))
        elif above > last.above:
            disjunctions[-1] = Disjunction(first, second, last.below, above)
        belongs[one, other] = len(disjunctions) - 1
    return disjunctions, belongs


# Far more pairs than either solver can handle; up to here the model is built within a second.
MOST_PAIRS = 20_000
MOST_CLIQUE_MEMBERS = 20_000

# Doubles hold integers exactly up to 2**53, and a row adds many numbers.
MOST_UNITS = 1 << 40

# A column of the program and 0; or None and the value, if it is known already.
Indicator = tuple[int | None, int]


class BigM:
    """Big-M program with one ordering binary for each separation of two blocks.

    Note: tighter than the textbook. Offsets are bounded by the peak to beat, and every M by those
    bounds. If the value of a binary follows from the bounds, from a pin or from symmetry, it is no
    variable. For each tensor of each clique of unsafe tensors there are two rows
    without M: the tensors of the clique below it fit under it, and those above it fit between it
    and the peak. These rows give the relaxation the bound of the clique under every partial order.
    """

    def __init__(
        self,
        problem: Problem,
        scaled: ScaledBlocks,
        least: int,
        most: int,
        *,
        decide: bool,
        budget: Budget,
    ) -> None:
        require_room("units of bytes", most, MOST_UNITS)
        require_unsafe_pairs(problem, MOST_PAIRS)
        self._problem = problem
        self._scaled = scaled
        self._most = most
        self._budget = budget
        self.milp = MilpModel()
        low, high = scaled.lowest, scaled.highest(most)
        self.contradiction = bool(
            most < least or (low > high).any() or (low + scaled.size > most).any()
        )
        if self.contradiction:
            return
        # The rows of the model consist of Python's integers.
        self._low, self._high = low.tolist(), high.tolist()
        self._size, self._modulus = scaled.size.tolist(), scaled.modulus.tolist()
        self._tensor_size, self._before = scaled.tensor_size.tolist(), scaled.before.tolist()
        self._block_of = scaled.block_of.tolist()
        self._peak = self.milp.column(least, most, integer=True)
        self.milp.objective = None if decide else self._peak
        self._heads = [self._add_head(block) for block in range(scaled.count)]
        pairs = list_unsafe_pairs(problem, MOST_PAIRS)
        self._separations, self._belongs = disjunctions_of(scaled, pairs)
        self._add_separations(pairs)
        self._add_cliques(pairs)

    def plan(self, values: Sequence[float]) -> Plan | None:
        """Return the best plan with the order of a solution, in exact arithmetic.

        Return None if the order has no plan below the peak, which the solver's rounding may cause.
        """
        distances = []
        for separation, (column, known) in zip(self._separations, self._second_above, strict=True):
            first, second = separation.first, separation.second
            if known if column is None else values[column] > 0.5:
                distances.append((first, second, separation.above))
            else:
                distances.append((second, first, -separation.below))
        heads = longest_path_heads(self._scaled, distances, self._most)
        return None if heads is None else self._scaled.plan(self._problem, heads)

    def _add_head(self, block: int) -> tuple[int, int, int]:
        """Add a block; its head is ``column * factor + offset``."""
        modulus, low, size = self._modulus[block], self._low[block], self._size[block]
        last = 0 if not size else (self._high[block] - low) // modulus
        self._high[block] = low + modulus * last
        column = self.milp.column(0, last, integer=modulus > 1)
        self.milp.row([(self._peak, 1), (column, -modulus)], lower=low + size)
        return column, modulus, low

    def _add_separations(self, pairs: IntColumn) -> None:
        """Add one ordering binary for each separation whose answer is not known yet."""
        alike = self._break_symmetry(pairs)
        self._second_above: list[Indicator] = []
        for index, separation in enumerate(self._separations):
            require_time(self._budget)
            first, second = separation.first, separation.second
            nearest = self._low[second] - self._high[first]
            farthest = self._high[second] - self._low[first]
            can_be_below = nearest <= separation.below and (first, second) not in alike
            can_be_above = farthest >= separation.above
            if not can_be_below and not can_be_above:
                self.contradiction = True
            (column, factor, offset), (one, one_factor, one_offset) = (
                self._heads[second],
                self._heads[first],
            )
            distance = [(column, factor), (one, -one_factor)]
            shift = one_offset - offset
            if can_be_below and can_be_above:
                binary = self.milp.column(0, 1, integer=True)
                reach = separation.above - nearest
                self.milp.row([*distance, (binary, -reach)], lower=nearest + shift)
                reach = farthest - separation.below
                self.milp.row([*distance, (binary, -reach)], upper=separation.below + shift)
                self._second_above.append((binary, 0))
            elif can_be_above:
                self.milp.row(distance, lower=separation.above + shift)
                self._second_above.append((None, 1))
            else:
                self.milp.row(distance, upper=separation.below + shift)
                self._second_above.append((None, 0))
            before = self._separations[index - 1] if index else None
            if before is not None and (before.first, before.second) == (first, second):
                # If the second block is above the farther range, it is above the nearer one.
                self._add_implication(self._second_above[-1], self._second_above[-2])

    def _add_implication(self, farther: Indicator, nearer: Indicator) -> None:
        if farther[0] is not None and nearer[0] is not None:
            self.milp.row([(nearer[0], 1), (farther[0], -1)], lower=0)

    def _break_symmetry(self, pairs: IntColumn) -> set[tuple[int, int]]:
        """Return pairs of identical blocks of which the first may be assumed to lie lower."""
        neighbours = [1 << tensor for tensor in range(self._problem.tensor_count)]
        for a, b in pairs.tolist():
            neighbours[a] |= 1 << b
            neighbours[b] |= 1 << a
        symmetry = symmetry_of(self._problem, self._scaled, neighbours)
        if symmetry.anchor is not None:
            column, factor, offset = self._heads[symmetry.anchor]
            size = self._size[symmetry.anchor]
            self.milp.row([(self._peak, 1), (column, -2 * factor)], lower=2 * offset + size)
        return {
            (lower, upper)
            for group in symmetry.groups
            for index, upper in enumerate(group)
            for lower in group[:index]
        }

    def _add_cliques(self, pairs: IntColumn) -> None:
        problem = self._problem
        with_order = problem.lifetimes_decide or problem.safety is Safety.GRAPH
        known = sections_of(problem).live_sets() if with_order else []
        for clique in clique_cover(
            problem.tensor_count, pairs, known, self._budget, MOST_CLIQUE_MEMBERS
        ):
            require_time(self._budget)
            for tensor in clique:
                self._add_clique_rows(tensor, [other for other in clique if other != tensor])

    def _add_clique_rows(self, tensor: int, others: list[int]) -> None:
        """Add two rows: tensors below one fit under it, and tensors above it fit under the peak."""
        column, factor, offset = self._heads[self._block_of[tensor]]
        offset += self._before[tensor]
        under, under_known = [(column, factor)], -offset
        over, over_known = [(self._peak, 1), (column, -factor)], offset
        over_known += self._tensor_size[tensor]
        for other in others:
            size = self._tensor_size[other]
            indicator, factor_above, constant = self._is_below(other, tensor)
            under_known += size * constant
            over_known += size * (1 - constant)
            if indicator is not None:
                under.append((indicator, -size * factor_above))
                over.append((indicator, size * factor_above))
        self.milp.row(under, lower=under_known)
        self.milp.row(over, lower=over_known)

    def _is_below(self, lower: int, upper: int) -> tuple[int | None, int, int]:
        """Return ``column, factor, constant`` for "``lower`` is below ``upper``"."""
        block_of = self._block_of
        if block_of[lower] == block_of[upper]:
            return None, 0, int(self._before[lower] < self._before[upper])
        if block_of[lower] < block_of[upper]:
            column, known = self._second_above[self._belongs[lower, upper]]
            return column, 1, known
        column, known = self._second_above[self._belongs[upper, lower]]
        return (None, 0, 1 - known) if column is None else (column, -1, 1)


def longest_path_heads(
    scaled: ScaledBlocks, distances: Iterable[tuple[int, int, int]], peak: int
) -> list[int] | None:
    """Return the least offsets that keep every distance, or None if one exceeds the peak.

    Only the order is taken from a floating-point solver. Its offsets are computed here: start every
    block at the bottom, and raise blocks that are too low to the next offset of their residue until
    none is.
    """
    above: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for lower, upper, distance in distances:
        above[lower].append((upper, distance))
    size, modulus, residue = (c.tolist() for c in (scaled.size, scaled.modulus, scaled.residue))
    pinned = (scaled.pinned != NOT_PINNED).tolist()
    heads: list[int] = scaled.lowest.tolist()
    # A cycle of positive length would raise its blocks until the peak ends it. This limit ends it
    # sooner; it is far above the longest path of any order without such a cycle.
    rounds = 4 * scaled.count + 16
    raised = set(range(scaled.count))
    for _ in range(rounds):
        if not raised:
            return heads
        changed = set()
        for lower in sorted(raised):
            for upper, distance in above[lower]:
                least = heads[lower] + distance
                if heads[upper] >= least:
                    continue
                least += (residue[upper] - least) % modulus[upper]
                if pinned[upper] or least + size[upper] > peak:
                    return None
                heads[upper] = least
                changed.add(upper)
        raised = changed
    return None
