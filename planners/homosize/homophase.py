"""HomoPhase groups: requests with the same phases of allocation and free, planned as one block.

Note: why a phase's own requests are not grouped
------------------------------------------------
Rationale. The paper (Huang et al. 2026) defines a group by the phase of allocation and the phase of
free. It goes on: "since their lifespans overlap", packing the members end to end is locally
optimal. Phases follow one another. Consider requests that are allocated in phase ``p`` and freed in
a later phase ``q``. Each is alive at the last step of ``p``, since it is allocated by then and
freed later. So all of them overlap, no plan of them is smaller than the sum of their sizes, and end
to end is optimal, as the paper says. Now consider requests that are freed in the phase in which
they were allocated. Two of them need not overlap: one may be freed before the other is allocated.
Then end to end wastes the smaller of the two.

Approach. The paper's statement holds for the first kind and not for the second. Section 2.3 of the
paper calls the second kind scoped and transient. So only the first kind is grouped. The paper's
public code does the same, and checks that no group is larger than its peak.

Limits. The paper's definition of a group includes both kinds; ``transients="group"`` follows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import compress
from operator import not_

import numpy as np

from planners.greedy.place import place
from planners.homosize.paper_variant import PaperVariant
from planners.homosize.requests import Requests
from planners.model.columns import IntColumn
from planners.model.problem import Problem


@dataclass(frozen=True, eq=False)
class LocalPlan:
    """Requests with addresses relative to their group; globally the group is one request."""

    requests: Requests
    # int64 bytes from the beginning of the group, one entry for each request.
    address: IntColumn
    # The phases of the first allocation and of the last free.
    phase_start: int
    phase_end: int

    @cached_property
    def size(self) -> int:
        """Bytes of the block."""
        return int((self.address + self.requests.size).max())

    @cached_property
    def start(self) -> int:
        """Step of the first allocation."""
        return int(self.requests.start.min())

    @cached_property
    def end(self) -> int:
        """First step at which the whole block is free."""
        return int(self.requests.end.max())

    @cached_property
    def used(self) -> int:
        """Byte-steps of the requests, as Python integers, which do not overflow."""
        length = (self.requests.end - self.requests.start).astype(object)
        return int((self.requests.size * length).sum())

    @property
    def reserved(self) -> int:
        """Byte-steps of the block."""
        return self.size * (self.end - self.start)

    @property
    def product(self) -> Fraction:
        """Time-memory product: the used share of the reserved byte-steps (equation 1)."""
        return Fraction(self.used, self.reserved)


def homophase_groups(
    requests: Requests, paper_variant: PaperVariant
) -> tuple[list[LocalPlan], Requests]:
    """Group requests by the phases of allocation and free, and plan each group.

    Source: Huang et al. 2026, section 5.1, HomoPhase Group Planning.
    """
    grouped = np.full(requests.count, paper_variant.phases)
    if paper_variant.transients == "single":
        grouped &= requests.phase_start != requests.phase_end
    members = requests.select(grouped)
    order = np.lexsort(
        (*_stacking_keys(members, paper_variant), members.phase_end, members.phase_start)
    )
    members = members.select(order)
    borders = np.flatnonzero(
        (np.diff(members.phase_start) != 0) | (np.diff(members.phase_end) != 0)
    )
    groups = np.split(np.arange(members.count), borders + 1) if members.count else []
    plans = [plan_locally(members.select(group), paper_variant) for group in groups]
    # Compared as floats, so that 9/10 is not below 0.9, which is a little more as a float.
    kept = [float(plan.product) >= paper_variant.least_product for plan in plans]
    position = np.flatnonzero(grouped)[order]
    for group in compress(groups, map(not_, kept)):
        grouped[position[group]] = False
    return list(compress(plans, kept)), requests.select(~grouped)


def plan_locally(members: Requests, paper_variant: PaperVariant) -> LocalPlan:
    """Plan the requests of one group."""
    if paper_variant.packing == "stacked":
        address = np.cumsum(members.size) - members.size
    else:
        problem = Problem(members.size, members.start, members.end)
        address = place(problem, np.arange(members.count)).offsets
    return LocalPlan(members, address, int(members.phase_start[0]), int(members.phase_end[0]))


def stacking_order(members: Requests, paper_variant: PaperVariant) -> IntColumn:
    """Return the indices of one group's members in the order of placement."""
    return np.lexsort(_stacking_keys(members, paper_variant))


def _stacking_keys(members: Requests, paper_variant: PaperVariant) -> tuple[IntColumn, ...]:
    """Return sort keys, the least significant first; ties keep the order of the problem."""
    if paper_variant.order == "end":
        return members.start, -members.end
    return (members.start,) if paper_variant.order == "start" else (members.start, -members.size)
