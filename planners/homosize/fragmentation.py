"""Fragmentation: reserved memory that is idle for a time, by where it lies."""

from __future__ import annotations

from dataclasses import dataclass

from planners.homosize.synthesis import Synthesis


@dataclass(frozen=True)
class Fragmentation:
    """What a plan reserves, in byte-steps: ``used + in_groups + in_layers == reserved``."""

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
