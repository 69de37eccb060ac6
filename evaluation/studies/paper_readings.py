"""The published planner under any reading of its paper."""

from __future__ import annotations

from planners.homosize.homosize import plan_as_published
from planners.homosize.paper_variant import PaperVariant
from planners.model.budget import Budget
from planners.model.findings import Findings
from planners.model.problem import Problem
from planners.registry import register


@register("paper-reading", source="Huang et al. 2026, sections 4 and 5.1")
class PaperReading(PaperVariant):
    """Plan as published, every open choice a parameter."""

    def __call__(self, problem: Problem, budget: Budget) -> Findings:
        """Return the plan, and how many fusions it accepted."""
        plan, synthesis = plan_as_published(problem, self, budget)
        return Findings(plan, statistics={"fusions": synthesis.fusion_count})
