"""Calls that plan with one of ours or one of the peer's, each from its own Python objects.

Without a budget nothing is limited, also where omnimalloc has limits of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from evaluation.benchmarks.contestants.omnimalloc_peer import Allocation, Peer, Placed
from evaluation.benchmarks.measuring.isolated_measurement import MeasuredCall
from planners import registry
from planners.model.budget import Budget
from planners.model.findings import Findings
from planners.model.plan import Parameters, Plan, Result
from planners.model.problem import Problem
from planners.referee.judge import judge
from planners.run import run
from planners.third_party.planner_answer import take_in

# A problem is read or made again in each process: it travels as what makes it, by pickle.
Source = Callable[[], Problem]
PeerState = tuple[Problem, tuple[Allocation, ...]]

# Planned before what is measured, so that neither contestant pays there for imports.
TINY = ([1, 2], [0, 0], [1, 1])


def planner_call(
    source: Source, planner: str, budget: Budget | None = None
) -> MeasuredCall[Problem, Plan | Result | Findings, Result]:
    """Return the call that plans with one of ours: a problem in, a plan out."""
    plan = partial(_plan, planner=planner, budget=budget or Budget())
    return MeasuredCall(partial(_warm_planner, source, plan), plan, _as_result)


def peer_call(
    source: Source, allocator: str, budget: Budget | None = None
) -> MeasuredCall[PeerState, Placed, Result]:
    """Return the call that plans with one of omnimalloc's: allocations in, placed ones out."""
    peer = Peer(allocator, budget or Budget())
    place = partial(_place, peer)
    return MeasuredCall(partial(_warm_peer, source, peer, place), place, partial(_finish, peer))


def judged_planner_call(
    source: Source,
    planner: str,
    budget: Budget | None = None,
    parameters: Parameters | None = None,
) -> MeasuredCall[Problem, Result, Result]:
    """Return the call that plans with one of ours: a problem in, a judged plan out."""
    plan = partial(
        _run, planner=planner, budget=budget or Budget(), parameters=dict(parameters or {})
    )
    return MeasuredCall(partial(_warm_planner, source, plan), plan, _as_result)


def _warm_planner(source: Source, plan: Callable[[Problem], Plan | Result | Findings]) -> Problem:
    plan(Problem(*TINY))
    return source()


def _plan(problem: Problem, *, planner: str, budget: Budget) -> Plan | Result | Findings:
    chosen = registry.get(planner)
    return chosen.info.build(**chosen.parameters)(problem, budget.started())


def _run(problem: Problem, *, planner: str, budget: Budget, parameters: Parameters) -> Result:
    return run(problem, registry.get(planner, **parameters), budget)


def _as_result(problem: Problem, answer: Plan | Result | Findings) -> Result:
    return answer if isinstance(answer, Result) else judge(problem, take_in(problem, answer))


def _warm_peer(source: Source, peer: Peer, place: Callable[[PeerState], Placed]) -> PeerState:
    tiny = Problem(*TINY)
    place((tiny, peer.allocations_of(tiny)))
    problem = source()
    return problem, peer.allocations_of(problem)


def _place(peer: Peer, state: PeerState) -> Placed:
    problem, allocations = state
    return peer.run(allocations, problem.capacity)


def _finish(peer: Peer, state: PeerState, placed: Placed) -> Result:
    return peer.result(state[0], placed)
