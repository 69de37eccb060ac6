"""The two sides of a comparison: a planner of ours or an allocator of the peer, each in a child."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from evaluation.benchmarks.in_child import Job, run_in_child
from evaluation.benchmarks.omnimalloc_peer import Allocation, Peer, Placed
from planners import registry
from planners.budget import Budget
from planners.check import find_violation
from planners.plan import Plan, Result, Status, feasible
from planners.problem import Problem

# A problem is read or made again in each child: it travels as what makes it.
Source = Callable[[], Problem]
PeerState = tuple[Problem, tuple[Allocation, ...]]

# Planned before what is measured, so that neither side pays there for imports.
TINY = ([1, 2], [0, 0], [1, 1])


@dataclass(frozen=True)
class Side:
    """What a planner answered, after the referee, and what each of its runs took.

    Parameters
    ----------
    result
        The last answer; with the status ``invalid`` if any run's plan was wrong.
    cpu_seconds
        Processor seconds of the planning call, one entry a run.
    added_bytes
        What the call added to resident memory at its peak, one entry a run.
    """

    result: Result
    cpu_seconds: tuple[float, ...]
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
) -> Job[Problem, Plan | Result, Result]:
    """Return the job of planning with one of ours, from the problem to the plan.

    Parameters
    ----------
    source
        Makes the problem; picklable.
    planner
        Registered name.
    budget
        Limits; none by default. Its clock starts with the call.

    Returns
    -------
    Job
        Its answer is not judged.
    """
    plan = partial(_plan, planner=planner, budget=budget or Budget())
    return Job(partial(_warm_planner, source, plan), plan, _as_result)


def peer_job(
    source: Source, allocator: str, budget: Budget | None = None
) -> Job[PeerState, Placed, Result]:
    """Return the job of planning with one of omnimalloc's, from its allocations to the placed ones.

    Parameters
    ----------
    source
        Makes the problem; picklable.
    allocator
        Name in omnimalloc's registry.
    budget
        Limits; none by default, also where omnimalloc has some.

    Returns
    -------
    Job
        Its answer is not judged.
    """
    peer = Peer(allocator, budget or Budget())
    return Job(partial(_warm_peer, source, peer), partial(_place, peer), partial(_finish, peer))


def run_side(problem: Problem, job: Job[Any, Any, Result], repetitions: int) -> Side:
    """Run a job in one fresh child after the other, and judge every plan.

    Parameters
    ----------
    problem
        What the job plans.
    job
        From :func:`planner_job` or :func:`peer_job`.
    repetitions
        Number of children, at least 1.

    Returns
    -------
    Side
        The first wrong answer if there is one, else the last.
    """
    runs = [run_in_child(job) for _ in range(repetitions)]
    judged = [_judge(problem, run.answer) for run in runs]
    return Side(
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


def _as_result(_problem: Problem, answer: Plan | Result) -> Result:
    return feasible(answer) if isinstance(answer, Plan) else answer


def _warm_peer(source: Source, peer: Peer) -> PeerState:
    peer.run(peer.allocations_of(Problem(*TINY)))
    problem = source()
    return problem, peer.allocations_of(problem)


def _place(peer: Peer, state: PeerState) -> Placed:
    problem, allocations = state
    return peer.run(allocations, problem.capacity)


def _finish(peer: Peer, state: PeerState, placed: Placed) -> Result:
    return peer.result(state[0], placed)
