"""A certificate: a lower bound with a proof that the referee can follow."""

from __future__ import annotations

from dataclasses import dataclass

from planners.model.plan import Plan

# Stands in a tree for a node that the rules refute.
LEAF = -1


@dataclass(frozen=True, eq=False)
class Certificate:
    """A proof that no plan has a peak below a bound; ``docs/trust.md`` has the rules."""

    # In bytes; None if there is no plan at all.
    bound: int | None
    # Sets of pairwise unsafe tensors.
    cliques: list[list[int]]
    # Each node in turn: ``a, b``, then the node with ``a`` below ``b``, then the node with ``b``
    # below ``a``; or ``LEAF``.
    tree: list[int]
    # A plan that meets the bound, if one is known.
    plan: Plan | None = None
