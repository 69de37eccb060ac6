"""The paper's plan synthesizer: its stages in sequence, and the idle memory of its plan."""

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

    requests: Requests
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
    return Synthesis(requests, groups, trials, plan_globally(plans, singles, paper_variant, budget))


@dataclass(frozen=True)
class Fragmentation:
    """Reserved byte-steps of a plan: ``used + in_groups + in_layers == reserved``."""

    # From the first allocation to the last free.
    steps: int
    reserved: int
    used: int
    # Within the blocks of groups.
    in_groups: int
    # In layers, at times without a group or a single request.
    in_layers: int

    def mean_bytes(self, byte_steps: int) -> int:
        """Return byte-steps as mean bytes over the steps, rounded."""
        return round(byte_steps / self.steps) if self.steps else 0


def fragmentation_of(synthesis: Synthesis) -> Fragmentation:
    """Account for the byte-steps of a published plan."""
    plan, requests = synthesis.plan, synthesis.requests
    if not requests.count:
        return Fragmentation(0, 0, 0, 0, 0)
    steps = int(requests.end.max()) - int(requests.start.min())
    reserved = plan.peak * steps
    of_units = int((plan.size * (plan.end - plan.start).astype(object)).sum())
    in_groups = sum(local.reserved - local.used for local in plan.plans)
    return Fragmentation(steps, reserved, of_units - in_groups, in_groups, reserved - of_units)
