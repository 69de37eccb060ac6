"""The content of a certificate file; the referee has its own reader."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from planners.files.problem_file import problem_to_fields
from planners.model.certificate import Certificate, CostCertificate
from planners.model.problem import Problem

FORMAT = "gapless-certificate"
VERSION = 1


def certificate_to_fields(
    problem: Problem, certificate: Certificate | CostCertificate
) -> dict[str, Any]:
    """Return the content of a certificate file."""
    names = [field.name for field in fields(certificate) if field.name != "plan"]
    content: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        **{name: getattr(certificate, name) for name in names},
        "problem": problem_to_fields(problem),
    }
    if certificate.plan is not None:
        content["offsets"] = certificate.plan.offsets.tolist()
    return content
