"""The referee of certificates: follows a proof step by step, without any code of the searches.

Note [Rules of a certificate]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Assume a plan with a peak below the bound. A node of the tree holds decisions "a lies below b" that
the plan obeys, and a least and a greatest offset of each block, between which the plan lies. Each
rule brings the two closer together. The node is refuted when they cross. A node branches over
which of some pairwise unsafe tensors is the lowest, so that its branches cover all plans.

- Alone. A block begins at its pin, or aligned, and ends below the bound.
- Pair. Of two unsafe tensors one lies below the other. If a decision or the offsets exclude one
  order, then the upper tensor of the other order begins at the end of the lower one or above.
- Clique. The lowest tensor of a clique has the bytes of all of them above its start. One that
  begins too high for that begins at or above the least end of those that may be the lowest. If none
  may be, the node is refuted. A part of a clique is a clique.
- Cycle. Let x be the least offset of the block of a, and P the largest alignment. A solution of the
  decisions alone stays one if all of it moves by P, even below 0. So if there is any, one has the
  block in [x, x + P). The node is refuted if the decisions, from x alone, raise it to x + P.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from planners.errors import InvalidCertificateError
from planners.files.json_file import refuse, require_fields, require_list
from planners.files.problem_file import problem_from_fields
from planners.model.plan import Plan
from planners.model.problem import Problem, Safety
from planners.referee.naive import find_violation, nodes_after_tensors

# Limits the work for an untrusted file. A step takes about a microsecond. A guess.
MOST_STEPS = 1 << 30


@dataclass(frozen=True)
class Proven:
    """No plan has a peak below the bound, or there is none if that is None; a plan may meet it."""

    problem: Problem
    bound: int | None
    is_met: bool


def check_certificate(fields: Any) -> Proven:
    """Return what an untrusted certificate proves; refuse the first part that does not hold."""
    if isinstance(fields, dict) and fields.get("format", "") != "gapless-certificate":
        refuse("format", "'gapless-certificate'", fields.get("format"))
    needed = {"format", "version", "bound", "cliques", "tree", "problem"}
    require_fields("", fields, needed, {"offsets"})
    if type(fields["version"]) is not int or fields["version"] != 1:
        refuse("version", "1", fields["version"])
    bound = fields["bound"]
    if bound is not None and (type(bound) is not int or not 0 <= bound < 1 << 63):
        refuse("bound", "null or a whole number from 0 to 2**63 - 1", bound)
    problem = problem_from_fields(fields["problem"])
    require_list("cliques", fields["cliques"])
    for index, clique in enumerate(fields["cliques"]):
        _require_numbers(f"cliques, entry {index}", clique, 0, problem.tensor_count)
    _require_numbers("tree", fields["tree"], 0, problem.tensor_count + 1)
    _require_unsafe(problem, fields["cliques"])
    blocks = _Blocks(problem, fields["cliques"], (1 << 64 if bound is None else bound) - 1)
    _follow(blocks, fields["tree"])
    if "offsets" in fields:
        require_list("offsets", fields["offsets"])
        wrong = find_violation(problem, Plan(fields["offsets"], -1 if bound is None else bound))
        if wrong is not None:
            raise InvalidCertificateError(f"the plan does not meet the bound: {wrong}")
    return Proven(problem, bound, "offsets" in fields)


def _require_numbers(field: str, value: Any, least: int, end: int) -> None:
    require_list(field, value)
    for entry in value:
        if type(entry) is not int or not least <= entry < end:
            refuse(field, f"whole numbers from {least} to {end - 1}", entry)


def _require_unsafe(problem: Problem, cliques: list[list[int]]) -> None:
    """Refuse a clique that has a tensor twice, one without bytes, or two that are safe."""
    segments = problem.segments()
    after = None
    given = () if problem.unsafe_pairs is None else problem.unsafe_pairs.tolist()
    pairs = {(min(pair), max(pair)) for pair in given}
    for index, clique in enumerate(cliques):
        if not clique or len(set(clique)) < len(clique) or not problem.size[clique].all():
            raise InvalidCertificateError(f"clique {index}: different tensors of bytes are needed")
        if problem.safety is Safety.PAIRS:
            safe = next((p for p in combinations(sorted(clique), 2) if p not in pairs), None)
        else:
            # Tensors that are live at one step are unsafe, also on several streams: the last user
            # of one does not come before the producer of the other.
            rows = segments[np.isin(segments[:, 0], clique)]
            starts, ends = np.sort(rows[:, 1]), np.sort(rows[:, 2])
            live = np.arange(1, len(rows) + 1) - np.searchsorted(ends, starts, side="right")
            if live.max(initial=0) == len(clique):
                continue
            if problem.graph is None:
                raise InvalidCertificateError(f"clique {index}: at no step are all of it live")
            after = nodes_after_tensors(problem) if after is None else after
            members = np.array(clique)
            born = problem.graph.producer[members]
            later = (after[np.ix_(members, born >> 3)] >> (born & 7).astype(np.uint8)) & 1
            safe = next((tuple(members[pair].tolist()) for pair in np.argwhere(later)), None)
        if safe is not None:
            raise InvalidCertificateError(f"clique {index}: tensors {safe} are not unsafe")


class _Blocks:
    """The tensors of a problem in blocks, and the cliques of a certificate."""

    def __init__(self, problem: Problem, cliques: list[list[int]], capacity: int) -> None:
        self.capacity, self.cliques = capacity, cliques
        self.size: list[int] = problem.size.tolist()
        chained = {tensor for chain in problem.contiguous for tensor in chain}
        singles = ([tensor] for tensor in range(len(self.size)) if tensor not in chained)
        self.members = [*map(list, problem.contiguous), *singles]
        # The block of each tensor, and the bytes of the block below it.
        self.of, self.before = [0] * len(self.size), [0] * len(self.size)
        rows = [self._conditions(problem, block) for block in range(len(self.members))]
        self.modulus, self.residue, self.low, self.high = (
            [row[column] for row in rows] for column in range(4)
        )
        self.cliques_of: list[list[int]] = [[] for _ in self.size]
        for index, clique in enumerate(cliques):
            for tensor in clique:
                self.cliques_of[tensor].append(index)
        self._partners: list[set[int]] = []
        self._steps = 0

    def _conditions(self, problem: Problem, block: int) -> tuple[int, int, int, int]:
        extent, modulus, residue, pin = 0, 1, 0, None
        for tensor in self.members[block]:
            self.of[tensor], self.before[tensor] = block, extent
            # The strictest alignment implies the others, because the problem is valid.
            if problem.alignment[tensor] > modulus:
                modulus = int(problem.alignment[tensor])
                residue = -extent % modulus
            if problem.pinned[tensor] >= 0:
                pin = int(problem.pinned[tensor]) - extent
            extent += self.size[tensor]
        most = self.capacity - extent
        if pin is not None:
            return modulus, residue, pin, min(pin, most)
        return modulus, residue, residue, most - (most - residue) % modulus

    def partners(self, tensor: int) -> set[int]:
        if not self._partners:
            # A pair takes memory, so that it counts as many steps.
            self.step(sum(256 * len(clique) ** 2 for clique in self.cliques))
            self._partners = [set() for _ in self.size]
            for clique in self.cliques:
                for member in clique:
                    self._partners[member].update(clique)
        return self._partners[tensor]

    def up(self, block: int, at: int) -> int:
        return at + (self.residue[block] - at) % self.modulus[block]

    def end(self, tensor: int) -> int:
        return self.before[tensor] + self.size[tensor]

    def step(self, count: int) -> None:
        self._steps += count
        if self._steps > MOST_STEPS:
            raise InvalidCertificateError(f"the proof takes more than {MOST_STEPS} steps to check")


def _follow(blocks: _Blocks, tree: list[int]) -> None:
    """Refuse a tree with a node that no rule refutes."""
    # None stands for a node that is refuted above.
    waiting: list[_Node | None] = [
        _Node(blocks, blocks.low, blocks.high, frozenset(), {*blocks.of})
    ]
    at = nodes = 0
    while waiting:
        node, nodes = waiting.pop(), nodes + 1
        node = None if node is None or node.is_refuted() else node
        count = tree[at] if at < len(tree) else 1
        tensors, at = tree[at + 1 : at + 1 + count], at + 1 + count
        if count == 0:
            if node is not None:
                given = ", ".join(f"{a} below {b}" for a, b in sorted(node.decisions)) or "nothing"
                raise InvalidCertificateError(f"node {nodes}: no rule refutes it, with {given}")
            continue
        blocks.step(count * count)
        are_unsafe = all(b in blocks.partners(a) for a, b in combinations(tensors, 2))
        if len({*tensors}) < max(2, count) or not are_unsafe:
            raise InvalidCertificateError(f"node {nodes}: no tensors of common cliques {tensors}")
        waiting += [node and node.decide(lowest, tensors) for lowest in reversed(tensors)]
    if at != len(tree):
        raise InvalidCertificateError(f"the tree ends after {at} entries, found {len(tree)}")


class _Node:
    """The least and the greatest offset of each block under some decisions (lower, upper)."""

    def __init__(
        self, blocks: _Blocks, low: list[int], high: list[int],
        decisions: frozenset[tuple[int, int]], moved: set[int],
    ) -> None:  # fmt: skip
        self.blocks, self.decisions = blocks, decisions
        self.low, self.high = list(low), list(high)
        # Blocks whose pairs and cliques are to be looked at.
        self.moved = moved
        blocks.step(len(low))

    def decide(self, lower: int, tensors: list[int]) -> _Node | None:
        """Return the node in which one tensor is the lowest; None if its decisions form a cycle."""
        blocks = self.blocks
        decisions = self.decisions | {(lower, upper) for upper in tensors if upper != lower}
        start = blocks.of[lower]
        end = self.low[start] + max(blocks.modulus)
        reached, moved = {start: self.low[start]}, [start]
        while moved:
            block = moved.pop()
            blocks.step(len(decisions))
            for a, b in decisions:
                if blocks.of[a] != block:
                    continue
                other = blocks.of[b]
                to = blocks.up(other, reached[block] + blocks.end(a) - blocks.before[b])
                if to > self.high[other] or (other == start and to >= end):
                    return None
                if to > reached.get(other, -1):
                    reached[other] = to
                    moved.append(other)
        return _Node(blocks, self.low, self.high, decisions, {blocks.of[t] for t in tensors})

    def is_refuted(self) -> bool:
        """Apply the rules until no block moves; return True if they refute the node."""
        blocks = self.blocks
        if blocks.capacity < 0 or any(a > b for a, b in zip(self.low, self.high, strict=True)):
            return True
        # Some rules may move a block by a byte a round; the next decisions settle the rest.
        for _ in range(64 * len(self.low)):
            tensors = [tensor for block in self.moved for tensor in blocks.members[block]]
            self.moved = set()
            for index in {index for tensor in tensors for index in blocks.cliques_of[tensor]}:
                if not self._clique_fits(blocks.cliques[index]):
                    return True
            for a in tensors if blocks.cliques else ():
                for b in blocks.partners(a):
                    if blocks.of[a] != blocks.of[b] and not self._pair_fits(a, b):
                        return True
            if not self.moved:
                break
        return False

    def _clique_fits(self, clique: list[int]) -> bool:
        blocks = self.blocks
        room = blocks.capacity - sum(blocks.size[tensor] for tensor in clique)
        left = sorted((self.low[blocks.of[t]] + blocks.before[t], t) for t in clique)
        ends: list[int] = []
        while left and len(ends) < 2:
            blocks.step(len(left))
            ends = [start + blocks.size[tensor] for start, tensor in left if start <= room]
            if not ends:
                return False
            end = min(ends)
            for start, t in left:
                if room < start < end and not self._raise(blocks.of[t], end - blocks.before[t]):
                    return False
            room += blocks.size[left.pop(0)[1]]
        return True

    def _pair_fits(self, a: int, b: int) -> bool:
        self.blocks.step(1)
        is_below, is_above = self._may_lie(a, b), self._may_lie(b, a)
        if is_below and is_above:
            return True
        return self._put(a, b) if is_below else is_above and self._put(b, a)

    def _may_lie(self, lower: int, upper: int) -> bool:
        end = self.low[self.blocks.of[lower]] + self.blocks.end(lower)
        most = self.high[self.blocks.of[upper]] + self.blocks.before[upper]
        return end <= most and (upper, lower) not in self.decisions

    def _put(self, lower: int, upper: int) -> bool:
        """Move the least offset above and the greatest one below, as the order demands."""
        blocks = self.blocks
        below, above = blocks.of[lower], blocks.of[upper]
        most = self.high[above] + blocks.before[upper] - blocks.end(lower)
        most -= (most - blocks.residue[below]) % blocks.modulus[below]
        if most < self.high[below]:
            self.high[below] = most
            self.moved.add(below)
        to = self.low[below] + blocks.end(lower) - blocks.before[upper]
        return self.low[below] <= self.high[below] and self._raise(above, to)

    def _raise(self, block: int, to: int) -> bool:
        to = self.blocks.up(block, to)
        if to > self.low[block]:
            self.low[block] = to
            self.moved.add(block)
        return self.low[block] <= self.high[block]
