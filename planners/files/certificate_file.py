"""The content of a certificate file; the referee has its own reader."""

from __future__ import annotations

from typing import Any

from planners.files.problem_file import problem_to_fields
from planners.model.certificate import Certificate
from planners.model.problem import Problem

FORMAT = "gapless-certificate"
VERSION = 1


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
