"""The budget of a planner: time, search nodes, threads, and the seed of its random choices."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from planners.errors import GaplessError
from planners.model.columns import is_number, is_whole
from planners.model.plan import Plan
from planners.text.plain_text import shown

INT32_MAX = (1 << 31) - 1


@dataclass(frozen=True)
class Budget:
    """Limits of one run.

    Parameters
    ----------
    time_limit_seconds
        Wall-clock limit; None for no limit.
    node_limit
        Limit on search nodes, for runs that repeat exactly; None for no limit.
    threads
        Threads that a planner may use, from 1 to 2**31 - 1.
    seed
        Start of every random choice, from 0 to 2**31 - 1.
    deadline
        Moment of ``time.monotonic`` at which the time is over; set by :meth:`started`.
    on_offer
        Called with each plan that the planner offers; set for planners of third parties.

    Raises
    ------
    GaplessError
        A field is not a number, or is out of its range.
    """

    time_limit_seconds: float | None = None
    node_limit: int | None = None
    threads: int = 1
    seed: int = 0
    deadline: float = math.inf
    on_offer: Callable[[Plan], None] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        limit, nodes = self.time_limit_seconds, self.node_limit
        if limit is not None and not is_number(limit, 0):
            raise GaplessError(
                f"time limit: seconds of at least 0 are needed, found {shown(limit)}"
            )
        if nodes is not None and not is_whole(nodes):
            raise GaplessError(f"node limit: 0 to 2**63 - 1 is needed, found {shown(nodes)}")
        if not is_whole(self.threads, 1, INT32_MAX):
            raise GaplessError(f"threads: 1 to 2**31 - 1 is needed, found {shown(self.threads)}")
        if not is_whole(self.seed, 0, INT32_MAX):
            raise GaplessError(f"seed: 0 to 2**31 - 1 is needed, found {shown(self.seed)}")
        if not is_number(self.deadline, -math.inf):
            raise GaplessError(f"deadline: a number is needed, found {shown(self.deadline)}")

    def started(self) -> Budget:
        """Return the same budget with its clock running."""
        if self.time_limit_seconds is None:
            return replace(self, deadline=math.inf)
        return replace(self, deadline=time.monotonic() + self.time_limit_seconds)

    def remaining_seconds(self) -> float:
        """Return the seconds left, at least 0; infinite without a limit."""
        return max(0.0, self.deadline - time.monotonic())

    def offer(self, plan: Plan) -> None:
        """Report a plan before the answer.

        If the planner returns no plan, raises ``TimeoutError`` or ``MemoryError``, or is ended by
        Ctrl-C, the best plan offered is its answer. Its curve over time is that of its offers. They
        are lost with a process of its own that is killed.

        Parameters
        ----------
        plan
            For the problem that the planner was called with; it is copied.
        """
        if self.on_offer is not None:
            self.on_offer(plan)
