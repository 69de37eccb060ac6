"""The certificate file: a lower bound, its proof, and the problem; the referee reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from planners.files.problem_file import problem_to_fields
from planners.model.plan import Plan
from planners.model.problem import Problem

FORMAT = "gapless-certificate"
VERSION = 1
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


def certificate_to_fields(problem: Problem, certificate: Certificate) -> dict[str, Any]:
    """Return the content of a certificate file."""
    fields: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "bound": certificate.bound,
        "cliques": certificate.cliques,
        "tree": certificate.tree,
        "problem": problem_to_fields(problem),
    }
    if certificate.plan is not None:
        fields["offsets"] = certificate.plan.offsets.tolist()
    return fields
