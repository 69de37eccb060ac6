"""A certificate: a lower bound with a proof that the referee can follow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from planners.model.plan import Plan

# Stands in a tree for a node that the rules refute.
LEAF = 0


@dataclass(frozen=True, eq=False)
class Certificate:
    """A proof that no plan has a peak below a bound; ``docs/trust.md`` has the rules."""

    # In bytes; None if there is no plan at all.
    bound: int | None
    # Sets of pairwise unsafe tensors.
    cliques: list[list[int]]
    # Each node in turn: the number of some tensors, the tensors, and for each of them the node in
    # which it is the lowest of them; or ``LEAF``.
    tree: list[int]
    # A plan that meets the bound, if one is known.
    plan: Plan | None = None


@dataclass(frozen=True, eq=False)
class CostCertificate:
    """A proof of what each plan within the capacity costs at least."""

    cost: int
    # Priced pairs that no plan pays, because they are unsafe.
    unsafe: list[int]
    # Sets of tensors, with a divisor or with a tree as above.
    rows: list[dict[str, Any]]
    # Each node in turn: a priced pair, whose branches follow, in which it is kept apart and in
    # which it pays; or what the weights of rows are divided by, a row, its weight, and so on.
    tree: list[int | list[int]]
    # A plan that costs no more, if one is known.
    plan: Plan | None = None
