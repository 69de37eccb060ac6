"""The two sides of a comparison: a planner of ours or an allocator of the peer, each in a child."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from evaluation.benchmarks.contestants.omnimalloc_peer import Allocation, Peer, Placed
from evaluation.benchmarks.measuring.isolated_measurement import MeasuredCall, run_isolated
from planners import registry
from planners.model.budget import Budget
from planners.model.plan import Parameters, Plan, Result, Status, feasible
from planners.model.problem import Problem
from planners.referee.check import find_violation
from planners.run import judge, run

# A problem is read or made again in each child: it travels as what makes it.
Source = Callable[[], Problem]
PeerState = tuple[Problem, tuple[Allocation, ...]]

# Planned before what is measured, so that neither side pays there for imports.
TINY = ([1, 2], [0, 0], [1, 1])


@dataclass(frozen=True)
class ContestantRuns:
    """What a planner answered, after the referee, and what each of its runs took."""

    # The last answer; with the status ``invalid`` if any run's plan was wrong.
    result: Result
    # Processor seconds of the planning call, one entry a run.
    cpu_seconds: tuple[float, ...]
    # What the call added to resident memory at its peak, one entry a run.
    added_bytes: tuple[int, ...]

    @property
    def peak(self) -> int | None:
        """Peak of the plan in bytes; None where no valid one is there to have a peak."""
        return self.result.peak if self.result.valid else None

    @property
    def seconds(self) -> float:
        """Median processor seconds."""
        return statistics.median(self.cpu_seconds)

    @property
    def memory(self) -> float:
        """Median of the bytes that the call added."""
        return statistics.median(self.added_bytes)


def planner_job(
    source: Source, planner: str, budget: Budget | None = None
) -> MeasuredCall[Problem, Plan | Result, Result]:
    """Return the job of planning with one of ours, from the problem to the plan."""
    plan = partial(_plan, planner=planner, budget=budget or Budget())
    return MeasuredCall(partial(_warm_planner, source, plan), plan, _as_result)


def peer_job(
    source: Source, allocator: str, budget: Budget | None = None
) -> MeasuredCall[PeerState, Placed, Result]:
    """Return the call that plans with one of omnimalloc's: allocations in, placed ones out."""
    peer = Peer(allocator, budget or Budget())
    place = partial(_place, peer)
    return MeasuredCall(partial(_warm_peer, source, peer, place), place, partial(_finish, peer))


def judged_planner_job(
    source: Source,
    planner: str,
    budget: Budget | None = None,
    parameters: Parameters | None = None,
) -> MeasuredCall[Problem, Result, Result]:
    """Return the job of planning with one of ours, from the problem to the judged plan."""
    plan = partial(
        _run, planner=planner, budget=budget or Budget(), parameters=dict(parameters or {})
    )
    return MeasuredCall(partial(_warm_planner, source, plan), plan, _as_result)


def judged_peer_job(
    source: Source, allocator: str, budget: Budget | None = None
) -> MeasuredCall[PeerState, Result, Result]:
    """Return the call that plans with one of omnimalloc's: allocations in, a judged plan out."""
    peer = Peer(allocator, budget or Budget())
    place = partial(_place_and_judge, peer)
    return MeasuredCall(partial(_warm_peer, source, peer, place), place, _as_placed_result)


def run_contestant(
    problem: Problem, job: MeasuredCall[Any, Any, Result], repetitions: int
) -> ContestantRuns:
    """Run a job in one fresh child after the other, and judge every plan."""
    runs = [run_isolated(job) for _ in range(repetitions)]
    judged = [_judge(problem, run.answer) for run in runs]
    return ContestantRuns(
        next((result for result in judged if not result.valid), judged[-1]),
        tuple(run.cpu_seconds for run in runs),
        tuple(run.added_bytes for run in runs),
    )


def _judge(problem: Problem, result: Result) -> Result:
    if result.plan is None:
        return result
    violation = find_violation(problem, result.plan)
    return result if violation is None else replace(result, status=Status.INVALID, reason=violation)


def _warm_planner(source: Source, plan: Callable[[Problem], Plan | Result]) -> Problem:
    plan(Problem(*TINY))
    return source()


def _plan(problem: Problem, *, planner: str, budget: Budget) -> Plan | Result:
    chosen = registry.get(planner)
    return chosen.info.build(**chosen.parameters)(problem, budget.started())


def _run(problem: Problem, *, planner: str, budget: Budget, parameters: Parameters) -> Result:
    return run(problem, registry.get(planner, **parameters), budget)


def _as_result(_problem: Problem, answer: Plan | Result) -> Result:
    return feasible(answer) if isinstance(answer, Plan) else answer


def _warm_peer(
    source: Source, peer: Peer, place: Callable[[PeerState], Placed | Result]
) -> PeerState:
    tiny = Problem(*TINY)
    place((tiny, peer.allocations_of(tiny)))
    problem = source()
    return problem, peer.allocations_of(problem)


def _place(peer: Peer, state: PeerState) -> Placed:
    problem, allocations = state
    return peer.run(allocations, problem.capacity)


def _finish(peer: Peer, state: PeerState, placed: Placed) -> Result:
    return peer.result(state[0], placed)


def _place_and_judge(peer: Peer, state: PeerState) -> Result:
    return judge(state[0], peer.result(state[0], _place(peer, state)))


def _as_placed_result(_state: PeerState, result: Result) -> Result:
    return result
