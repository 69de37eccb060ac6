"""The digest of a problem: equal where every plan for the one is a plan for the other."""

from __future__ import annotations

import hashlib

from planners.files.json_file import compact_json
from planners.files.problem_file import problem_to_fields
from planners.model.problem import Problem

# What a problem is called, and the question asked of it, change no plan.
_LEFT_OUT = ("name", "origin", "tensor_name", "capacity")


def problem_digest(problem: Problem) -> str:
    """Return the digest of what a problem asks of a plan."""
    fields = problem_to_fields(problem)
    for field in _LEFT_OUT:
        fields.pop(field, None)
    return "sha256:" + hashlib.sha256(compact_json(fields).encode()).hexdigest()
