"""What the tests of the branch and bound draw: problems of every kind, and which rules prune."""

from __future__ import annotations

from dataclasses import fields
from random import Random

from planners import Problem, Safety
from planners.exact.branch_and_bound.branch_and_bound import Rules
from planners.testing.random_problems import FEATURES, Count, random_problem

RULES = tuple(rule.name for rule in fields(Rules))

# Chains lead to the one search and all else to the other; without bytes, pins and gaps more
# tensors meet, and the searches have more to do.
_LEFT_OUT: tuple[frozenset[str], ...] = (
    frozenset(),
    frozenset({"chains"}),
    frozenset({"chains", "zero"}),
    frozenset({"chains", "zero", "pins"}),
    frozenset({"gaps", "pins"}),
)


def varied_problem(
    rng: Random, tensors: Count, features: frozenset[str] = FEATURES, safety: Safety | None = None
) -> Problem:
    """Return a random problem with some of the features, so that each search has its share."""
    kind = safety or rng.choice(list(Safety))
    return random_problem(rng, kind, tensors, features=features - rng.choice(_LEFT_OUT))


def varied_rules(rng: Random) -> dict[str, bool]:
    """Return which rules prune: often all, else all but one, one alone, or any."""
    kind = rng.randrange(6)
    if kind < 3:
        return dict.fromkeys(RULES, True)
    if kind == 5:
        return {rule: rng.random() < 0.5 for rule in RULES}
    odd = rng.choice(RULES)
    return {rule: (rule == odd) == (kind == 4) for rule in RULES}
