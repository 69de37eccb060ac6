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
- Cycle. From the least offset x of the block of a alone, the decisions raise blocks. Let P be the
  largest alignment of those raised so far. A solution of the decisions between them stays one if
  all of them move by P, even below 0. So if there is any, one has the block of a in [x, x + P). The
  node is refuted if the block of a is raised to x + P.

Every loop charges its steps to one counter, because decisions in a file of 300 bytes may raise
blocks byte by byte for hours. The nodes share one state, whose changes are undone, so that a node
costs what it changes.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from operator import le
from typing import Any

from planners.errors import InvalidCertificateError
from planners.files.file_limits import Allowance, ReadingWork
from planners.files.json_file import compact_json, refuse, require_fields, require_list
from planners.files.problem_file import problem_from_fields, problem_to_fields
from planners.model.plan import Plan
from planners.model.problem import Problem
from planners.referee.naive import Charge, find_no_clique, find_violation

# Limits the check. A step takes about half a microsecond; what is kept takes memory and counts as
# STEPS_KEPT. The bytes are those of deflated JSON, so that a file may ask for the same if it is
# gzipped, and a repetition asks for little. Guesses.
STEPS = Allowance("steps of a check (its bytes: as deflated JSON)", 1 << 22, 1, more=64)
STEPS_KEPT = 8


@dataclass(frozen=True)
class Proven:
    """No plan has a peak, or cost, below the bound, or there is none (None); a plan may meet it."""

    problem: Problem
    bound: int | None
    is_met: bool
    of_cost: bool = False


def check_certificate(fields: Any) -> Proven:
    """Return what an untrusted certificate proves; refuse the first part that does not hold."""
    problem = problem_of(fields, {"bound", "cliques", "tree"})
    bound, cliques, tree = fields["bound"], fields["cliques"], fields["tree"]
    if bound is not None and (type(bound) is not int or not 0 <= bound < 1 << 63):
        refuse("bound", "null or a whole number from 0 to 2**63 - 1", bound)
    require_list("cliques", cliques)
    for index, clique in enumerate(cliques):
        require_numbers(f"cliques, entry {index}", clique, problem.tensor_count)
    require_numbers("tree", tree, problem.tensor_count + 1)
    charge = charge_of(problem, cliques, tree)
    wrong = find_no_clique(problem, cliques, charge)
    if wrong is not None:
        raise InvalidCertificateError(wrong)
    follow(State(problem, cliques, (1 << 64 if bound is None else bound) - 1, charge), tree)
    if "offsets" in fields:
        require_list("offsets", fields["offsets"])
        plan = Plan(fields["offsets"], -1 if bound is None else bound)
        wrong = find_violation(problem, plan, charge)
        if wrong is not None:
            raise InvalidCertificateError(f"the plan does not meet the bound: {wrong}")
    return Proven(problem, bound, "offsets" in fields)


def problem_of(fields: Any, proof: set[str]) -> Problem:
    if isinstance(fields, dict) and fields.get("format", "") != "gapless-certificate":
        refuse("format", "'gapless-certificate'", fields.get("format"))
    require_fields("", fields, {"format", "version", "problem", *proof}, {"offsets"})
    if type(fields["version"]) is not int or fields["version"] != 1:
        refuse("version", "1", fields["version"])
    return problem_from_fields(fields["problem"])


def charge_of(problem: Problem, *proof: Any) -> Charge:
    text = compact_json([*proof, problem_to_fields(problem)])
    return ReadingWork(STEPS, len(zlib.compress(text.encode()))).charge


def require_numbers(field: str, value: Any, end: int) -> None:
    require_list(field, value)
    for entry in value:
        if type(entry) is not int or not 0 <= entry < end:
            refuse(field, f"whole numbers from 0 to {end - 1}", entry)


def follow(state: State, tree: list[int]) -> None:
    """Refuse a tree with a node that no rule refutes."""
    is_open = state.capacity >= 0 and all(map(le, state.low, state.high))
    # Nodes to come: the state above each, whether no rule refutes it there, and its decisions.
    waiting: list[tuple[tuple[int, int], bool, int, list[int]]] = [((0, 0), is_open, 0, [])]
    at = nodes = 0
    while waiting:
        mark, is_open, lowest, tensors = waiting.pop()
        nodes += 1
        state.undo(mark)
        is_open = is_open and state.decide(lowest, tensors) and not state.is_refuted()
        count = tree[at] if at < len(tree) else 1
        tensors, at = tree[at + 1 : at + 1 + count], at + 1 + count
        if count == 0:
            if is_open:
                given = ", ".join(f"{a} below {b}" for a, b in sorted(state.given)) or "nothing"
                raise InvalidCertificateError(f"node {nodes}: no rule refutes it, with {given}")
            continue
        require_numbers(f"tree, node {nodes}", tensors, len(state.size))
        members = set(tensors)
        state.charge(1 + count**2 // 16)
        if len(members) < max(2, count) or not all(members <= state.partners(t) for t in members):
            raise InvalidCertificateError(f"node {nodes}: no tensors of common cliques {tensors}")
        mark = len(state.given), len(state.changes)
        waiting += [(mark, is_open, lowest, tensors) for lowest in reversed(tensors)]
    if at != len(tree):
        raise InvalidCertificateError(f"the tree ends after {at} entries, found {len(tree)}")


class State:
    """The least and the greatest offset of each block under the decisions (lower, upper)."""

    def __init__(
        self, problem: Problem, cliques: list[list[int]], capacity: int, charge: Charge
    ) -> None:
        self.capacity, self.cliques, self.charge = capacity, cliques, charge
        self.size: list[int] = problem.size.tolist()
        chained = {tensor for chain in problem.contiguous for tensor in chain}
        singles = ([tensor] for tensor in range(len(self.size)) if tensor not in chained)
        self.members = [*map(list, problem.contiguous), *singles]
        # The block of each tensor, and the bytes of the block below it.
        self.of, self.before = [0] * len(self.size), [0] * len(self.size)
        self.modulus: list[int] = []
        self.residue: list[int] = []
        self.low: list[int] = []
        self.high: list[int] = []
        for block, members in enumerate(self.members):
            extent, modulus, residue, pin = 0, 1, 0, None
            for tensor in members:
                self.of[tensor], self.before[tensor] = block, extent
                # The strictest alignment implies the others, because the problem is valid.
                if problem.alignment[tensor] > modulus:
                    modulus = int(problem.alignment[tensor])
                    residue = -extent % modulus
                if problem.pinned[tensor] >= 0:
                    pin = int(problem.pinned[tensor]) - extent
                extent += self.size[tensor]
            self.modulus.append(modulus)
            self.residue.append(residue)
            self.low.append(residue if pin is None else pin)
            most = capacity - extent
            most -= (most - residue) % modulus
            self.high.append(most if pin is None else min(pin, most))
        self.cliques_of: list[list[int]] = [[] for _ in self.size]
        for index, clique in enumerate(cliques):
            for tensor in clique:
                self.cliques_of[tensor].append(index)
        self._partners: dict[int, set[int]] = {}
        # The decisions in turn, and by the block of the lower tensor.
        self.given: dict[tuple[int, int], None] = {}
        self._above: list[list[tuple[int, int]]] = [[] for _ in self.members]
        # Each offset before a change: the list that it is in, and its block.
        self.changes: list[tuple[list[int], int, int]] = []
        # Blocks whose pairs and cliques are to be looked at.
        self._moved = set(self.of)

    def partners(self, tensor: int) -> set[int]:
        """Return the tensors of all cliques that have a tensor."""
        if tensor not in self._partners:
            cliques = [self.cliques[index] for index in self.cliques_of[tensor]]
            self.charge(STEPS_KEPT * sum(map(len, cliques)))
            self._partners[tensor] = set().union(*cliques)
        return self._partners[tensor]

    def undo(self, mark: tuple[int, int]) -> None:
        """Return to the state of so many decisions and changes."""
        while len(self.given) > mark[0]:
            (lower, _), _ = self.given.popitem()
            self._above[self.of[lower]].pop()
        while len(self.changes) > mark[1]:
            offsets, block, before = self.changes.pop()
            offsets[block] = before

    def decide(self, lowest: int, tensors: list[int]) -> bool:
        """Put one tensor below the others; return False if its decisions form a cycle."""
        self.charge(1 + len(tensors))
        new = [(lowest, t) for t in tensors if t != lowest and (lowest, t) not in self.given]
        if not new:
            return True
        self._moved = {self.of[tensor] for pair in new for tensor in pair}
        start = self.of[lowest]
        self.given.update(dict.fromkeys(new))
        self._above[start] += new
        reached, raised, period = {start: self.low[start]}, [start], self.modulus[start]
        while raised:
            block = raised.pop()
            self.charge(1 + len(self._above[block]))
            for a, b in self._above[block]:
                other = self.of[b]
                period = max(period, self.modulus[other])
                end = reached[block] + self.before[a] + self.size[a]
                to = self._up(other, end - self.before[b])
                if to > self.high[other] or (other == start and to >= self.low[start] + period):
                    return False
                if to > reached.get(other, -1):
                    reached[other] = to
                    raised.append(other)
        return True

    def is_refuted(self) -> bool:
        """Apply the rules until no block moves; return True if they refute the node."""
        # Some rules may move a block by a byte a round; the next decisions settle the rest.
        for _ in range(64 * len(self.low)):
            tensors = [tensor for block in self._moved for tensor in self.members[block]]
            self._moved = set()
            for index in {index for tensor in tensors for index in self.cliques_of[tensor]}:
                if not self._clique_fits(self.cliques[index]):
                    return True
            for a in tensors:
                self.charge(1 + len(self.partners(a)))
                for b in self.partners(a):
                    if self.of[a] != self.of[b] and not self._pair_fits(a, b):
                        return True
            if not self._moved:
                break
        return False

    def _clique_fits(self, clique: list[int]) -> bool:
        self.charge(1 + len(clique))
        room = self.capacity - sum(self.size[tensor] for tensor in clique)
        left = sorted((self._least(tensor), tensor) for tensor in clique)
        starts = [start for start, _ in left]
        # The tensors before `first` lie below the others.
        for first, (_, lowest) in enumerate(left):
            at = bisect_right(starts, room)
            ends = [start + self.size[tensor] for start, tensor in left[first:at]]
            if not ends:
                return False
            end = min(ends)
            too_high = left[at : bisect_left(starts, end)]
            self.charge(len(ends) + len(too_high))
            if not all(self._raise(tensor, end) for _, tensor in too_high):
                return False
            if len(ends) > 1:
                break
            room += self.size[lowest]
        return True

    def _pair_fits(self, a: int, b: int) -> bool:
        is_below, is_above = self._may_lie(a, b), self._may_lie(b, a)
        if is_below and is_above:
            return True
        return self._put(a, b) if is_below else is_above and self._put(b, a)

    def _may_lie(self, lower: int, upper: int) -> bool:
        end = self._least(lower) + self.size[lower]
        most = self.high[self.of[upper]] + self.before[upper]
        return end <= most and (upper, lower) not in self.given

    def _put(self, lower: int, upper: int) -> bool:
        """Move the least offset above and the greatest one below, as the order demands."""
        below, above = self.of[lower], self.of[upper]
        end = self.before[lower] + self.size[lower]
        most = self.high[above] + self.before[upper] - end
        most -= (most - self.residue[below]) % self.modulus[below]
        if most < self.high[below]:
            self._move(self.high, below, most)
        return most >= self.low[below] and self._raise(upper, self.low[below] + end)

    def _raise(self, tensor: int, to: int) -> bool:
        block = self.of[tensor]
        to = self._up(block, to - self.before[tensor])
        if to > self.low[block]:
            self._move(self.low, block, to)
        return self.low[block] <= self.high[block]

    def _move(self, offsets: list[int], block: int, to: int) -> None:
        self.charge(STEPS_KEPT)
        self.changes.append((offsets, block, offsets[block]))
        offsets[block] = to
        self._moved.add(block)

    def _least(self, tensor: int) -> int:
        return self.low[self.of[tensor]] + self.before[tensor]

    def _up(self, block: int, at: int) -> int:
        return at + (self.residue[block] - at) % self.modulus[block]
