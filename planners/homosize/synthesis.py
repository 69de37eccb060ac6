"""The paper's plan synthesizer: its stages in sequence."""

from __future__ import annotations

from dataclasses import dataclass, replace

from planners.homosize.fusion import FusionAttempt, fuse_adjacent
from planners.homosize.global_plan import GlobalPlan, plan_globally
from planners.homosize.homophase import LocalPlan, homophase_groups
from planners.homosize.paper_variant import PaperVariant
from planners.homosize.requests import Requests
from planners.model.budget import Budget


@dataclass(frozen=True, eq=False)
class Synthesis:
    """The results of all stages for some requests."""

    # HomoPhase groups with their local plans.
    groups: list[LocalPlan]
    # The pairs of groups for which a fusion was tried.
    trials: list[FusionAttempt]
    # Groups and single requests in layers.
    plan: GlobalPlan

    @property
    def fusion_count(self) -> int:
        return sum(trial.accepted for trial in self.trials)


def synthesize(
    requests: Requests, paper_variant: PaperVariant, budget: Budget | None = None
) -> Synthesis:
    """Plan requests by HomoPhase groups, fusion, and HomoSize layers.

    Source: Huang et al. 2026, section 5.1.
    """
    whole = _synthesize(requests, paper_variant, budget)
    if not paper_variant.layers_too:
        return whole
    layers = _synthesize(requests, replace(paper_variant, phases=False), budget)
    return min(whole, layers, key=lambda synthesis: synthesis.plan.peak)


def _synthesize(
    requests: Requests, paper_variant: PaperVariant, budget: Budget | None
) -> Synthesis:
    groups, singles = homophase_groups(requests, paper_variant)
    plans, trials = fuse_adjacent(groups, paper_variant, budget)
    return Synthesis(groups, trials, plan_globally(plans, singles, paper_variant, budget))
