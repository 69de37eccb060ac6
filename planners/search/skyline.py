"""Beam search over skylines: wider and wider beams, each with one capacity."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from random import Random

from planners import _core
from planners.greedy.portfolio import Portfolio
from planners.greedy.stages import Stage, plan_in_stages, with_node_limit
from planners.model.budget import Budget
from planners.model.findings import Findings
from planners.model.incumbent import Incumbent
from planners.model.plan import Plan
from planners.model.problem import Problem, Safety
from planners.registry import UnsupportedProblemError, register
from planners.search.turns import NO_SECTIONS, Search, Shared

# Plans in the first beam, which takes milliseconds for a few hundred tensors. MOST_DOUBLINGS limits
# the growth of the width. Guesses.
FIRST_WIDTH = 16
MOST_DOUBLINGS = 12
# A beam examines every section for every block of every plan. With more blocks than this it delays
# the searches with which it takes turns. A guess.
MOST_BLOCKS_IN_TURNS = 2_000
# Limits, in bytes, the plans of two levels and the steps that led to them. A guess.
MOST_BYTES = 1 << 28
# The factor by which beams above the goal are narrower, as their slack makes choices. A guess.
NARROWER = 16
# Without any limit: skylines times blocks, and the least skylines. Guesses.
DEFAULT_EFFORT = 100_000_000
LEAST_SKYLINES = 1_000


@register(
    "skyline",
    summary="Beam search over skylines: fills the tightest place first, with ever wider beams",
    source="Gapless",
)
def skyline(problem: Problem, budget: Budget) -> Findings:
    """Fill the tightest place of many partial plans in parallel until a plan meets a bound.

    A node limit counts skylines. With a capacity, the first plan that fits is the answer. Several
    streams have no skylines: their answer is a greedy plan.
    """
    if problem.safety is Safety.PAIRS:
        raise UnsupportedProblemError("explicit pairs: a skyline needs sections of time; use auto")
    reason = _reason_against(problem)
    budget = with_node_limit(problem, budget, DEFAULT_EFFORT, LEAST_SKYLINES)
    incumbent = Incumbent(problem, budget, problem.capacity)
    portfolio = Portfolio(problem)
    stages: list[Stage] = [lambda: portfolio.run_first(incumbent), incumbent.ask_for_bounds]
    if not reason:
        stages.append(lambda: _widen(Shared(incumbent, portfolio)))
    findings = plan_in_stages(incumbent, stages)
    proven = findings.plan is not None and findings.plan.peak == findings.lower_bound
    if proven or not reason:
        return findings
    return replace(findings, reason=f"{reason}, so this is a greedy plan")


def _reason_against(problem: Problem) -> str:
    """Return why the problem's skylines are not searched, or an empty string."""
    if not problem.lifetimes_decide:
        return "several streams: a skyline needs sections of time"
    if _bytes_a_plan(problem) * FIRST_WIDTH > MOST_BYTES:
        return f"{problem.tensor_count} tensors: too many for skylines"
    return ""


def _widen(shared: Shared) -> None:
    beams = SkylineBeams(shared, skylines_an_attempt=1)
    for turn in count():
        if shared.incumbent.over or beams.exhausted:
            return
        beams.run(1 << min(turn, MOST_DOUBLINGS))


class SkylineBeams(Search):
    """Runs beams at the goal, and beams that give way up to the best plan.

    Note [Skyline beam] in ``skyline_beam.h`` describes a beam. At the goal there is little slack,
    so there are few choices, and plans at the bound are often found sooner than worse ones. If the
    goal is out of reach, narrower beams raise their capacity wherever they find no other way.
    """

    name = "beams"

    def __init__(self, shared: Shared, skylines_an_attempt: int | None = None) -> None:
        super().__init__(shared)
        incumbent = shared.incumbent
        # If the node limit counts attempts, each of which places all blocks, as many skylines as
        # there are blocks count as one attempt.
        self._skylines_an_attempt = skylines_an_attempt or max(1, incumbent.problem.blocks.count)
        self._random = Random(incumbent.budget.seed)
        # At or below this capacity, a beam that dropped nothing found no plan.
        self._hopeless = -1
        self._most_width = max(FIRST_WIDTH, MOST_BYTES // _bytes_a_plan(incumbent.problem))

    @classmethod
    def reason_against(cls, problem: Problem) -> str | None:
        if not problem.lifetimes_decide:
            return NO_SECTIONS
        if problem.blocks.count > MOST_BLOCKS_IN_TURNS:
            return f"more than {MOST_BLOCKS_IN_TURNS} blocks"
        return _reason_against(problem) or None

    @property
    def exhausted(self) -> bool:
        """Return True if no beam would do better than the former ones."""
        best = self._incumbent.best
        return best is not None and best.peak - 1 <= self._hopeless

    def run(self, length: int) -> None:
        """Run one beam at the goal, then others while they find better plans."""
        incumbent = self._incumbent
        width = min(FIRST_WIDTH * length, self._most_width)
        self._try(incumbent.goal, incumbent.goal, width)
        narrow = max(FIRST_WIDTH, width // NARROWER)
        while not (incumbent.over or self.exhausted):
            assert incumbent.best is not None
            if not self._try(incumbent.goal, incumbent.best.peak - 1, narrow):
                return

    def _try(self, capacity: int, limit: int, width: int) -> bool:
        if limit <= self._hopeless:
            return False
        incumbent, each = self._incumbent, self._skylines_an_attempt
        offsets, skylines, whole = _core.beam_over_skylines(
            incumbent.problem.core,
            capacity,
            limit,
            width,
            incumbent.most(_core.NO_LIMIT // each) * each,
            self._random.getrandbits(64),
            incumbent.budget.remaining_seconds(),
        )
        incumbent.count += -(-skylines // each)
        if len(offsets):
            incumbent.offer(Plan.of(incumbent.problem, offsets), f"skyline beam of {width}")
        elif whole:
            self._hopeless = max(self._hopeless, capacity)
            # A beam that gave way had dropped what its first capacity ruled out.
            return self._try(limit, limit, width)
        return len(offsets) > 0


def _bytes_a_plan(problem: Problem) -> int:
    """Return roughly how many bytes one plan of a beam takes."""
    # Heights, slacks and heads; twice, for plans with a place left empty; in two levels; and one
    # step for every tensor.
    return 4 * 8 * 3 * problem.tensor_count + 16 * problem.tensor_count
