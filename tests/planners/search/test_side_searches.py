"""Searches in further threads: never worse, the same whatever the load, and ended together."""

from __future__ import annotations

import _thread
import multiprocessing
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

import pytest

from instances import synthetic
from planners import Budget, Plan, Problem, Result, Safety, Status, _core, bounds_of, check, run
from planners.greedy.portfolio import Portfolio
from planners.search import auto as auto_module
from planners.search.auto import auto
from planners.search.incumbent import Incumbent
from planners.search.order_search import OrderSearch
from planners.search.side_searches import search_in_threads
from planners.search.turns import Shared, Turns
from tests.random_problems import random_problem

LONG = 3600.0
THREADS = 3
HARD = synthetic.training_graph(200, streams=2, chains=10, chain_length=8, seed=200)
"""No search met a bound of it yet."""

FAMILIES: list[Callable[[int], Problem]] = [
    lambda seed: synthetic.guillotine_packing(60, seed=seed),
    lambda seed: synthetic.non_guillotine_packing(12, seed=seed),
    lambda seed: synthetic.chained_packing(60, seed=seed),
    lambda seed: synthetic.multi_stream_packing(80, seed=seed),
    lambda seed: synthetic.scaling_family(600, seed=seed),
    lambda seed: synthetic.neighbour_ring(6, seed=seed),
    lambda seed: synthetic.training_graph(100, streams=2, chains=5, chain_length=8, seed=seed),
]


def plan(problem: Problem, threads: int, nodes: int = 2_000, seed: int = 0) -> Result:
    """Run it as a user does, and have the slow referee look at the plan."""
    budget = Budget(node_limit=nodes, threads=threads, seed=seed)
    result = run(problem, "auto", budget, bounds_of(problem))
    if result.plan is not None and result.status is not Status.INFEASIBLE:
        check(problem, result.plan)
    return result


def require_no_worse(one: Result, several: Result) -> None:
    assert several.status is not Status.INVALID
    assert several.lower_bound is not None
    assert one.lower_bound is not None
    assert several.lower_bound >= one.lower_bound
    if one.status is Status.INFEASIBLE:
        assert several.status is Status.INFEASIBLE
        return
    assert one.peak is not None
    assert several.peak is not None
    assert several.peak <= one.peak
    if one.status is Status.OPTIMAL:
        assert several.status is Status.OPTIMAL


def answer(result: Result) -> tuple[object, ...]:
    """Return all that does not hang on the clock."""
    offsets = None if result.plan is None else result.plan.offsets.tolist()
    return (
        offsets, result.status, result.lower_bound, result.certificate, result.reason,
        dict(result.statistics),
    )  # fmt: skip


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Keep processors busy meanwhile."""
    context = multiprocessing.get_context("spawn")
    others = [context.Process(target=_spin, daemon=True) for _ in range(count)]
    for other in others:
        other.start()
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.join()


def _spin() -> None:
    while True:
        pass


@pytest.fixture(autouse=True)
def leaves_no_thread() -> Iterator[None]:
    before = threading.active_count()
    yield
    assert threading.active_count() == before


@pytest.mark.parametrize("safety", Safety)
def test_never_worse_on_random_problems(safety: Safety) -> None:
    """With capacities, chains, pins, gaps, alignment, zero bytes, no tensors, and no plan."""
    for seed in range(60):
        problem = random_problem(Random(f"sides {safety} {seed}"), safety, (0, 30))
        one, several = plan(problem, 1, 600, seed), plan(problem, 2, 600, seed)
        require_no_worse(one, several)


@pytest.mark.parametrize("family", range(len(FAMILIES)))
def test_never_worse_on_families(family: int) -> None:
    for seed in range(4):
        problem = FAMILIES[family](seed)
        one, several = plan(problem, 1, seed=seed), plan(problem, THREADS, seed=seed)
        require_no_worse(one, several)


def test_another_thread_finds_what_the_main_search_does_not() -> None:
    found = [plan(HARD, 4, 5_000, seed) for seed in range(4)]
    assert any("thread" in str(result.statistics["found_by"]) for result in found)
    assert all(int(result.statistics["attempts"]) > 5_000 for result in found)


@pytest.mark.parametrize("family", range(len(FAMILIES)))
def test_a_node_limit_repeats_beside_busy_processes(family: int) -> None:
    problem = FAMILIES[family](7)
    one = plan(problem, THREADS)
    with busy_processes(3):
        assert answer(plan(problem, THREADS)) == answer(one)


def test_a_capacity_repeats() -> None:
    """The first plan that fits is the answer, and what others had by then hangs on the load."""
    for seed in range(10):
        problem = synthetic.guillotine_packing(60, seed=seed)
        bound = max(bound.bytes for bound in bounds_of(problem))
        problem = problem.with_capacity(bound * 102 // 100)
        one = plan(problem, THREADS, 4_000)
        assert all(answer(plan(problem, THREADS, 4_000)) == answer(one) for _ in range(3))


def started(problem: Problem, budget: Budget) -> Incumbent:
    """Return an incumbent with a first plan and all bounds."""
    incumbent = Incumbent(problem, budget.started(), problem.capacity)
    Portfolio(problem).run_first(incumbent)
    incumbent.ask_for_bounds()
    return incumbent


def wait_until_over(incumbent: Incumbent) -> None:
    pause = threading.Event()
    while not incumbent.over:
        pause.wait(0.001)


def walk_for_ever(incumbent: Incumbent) -> None:
    """Ask the core for something that takes hours."""
    instance = incumbent.problem.core.with_rows()
    order = Portfolio(incumbent.problem).all_orders[0].astype("int32")
    _core.search_orders(instance, order, incumbent.bound.bytes, _core.NO_LIMIT, 0, LONG)


def optimum_of(problem: Problem) -> Plan:
    found = auto(problem, Budget(node_limit=200_000)).plan
    assert found is not None
    return found


@pytest.mark.parametrize("search", [wait_until_over, walk_for_ever])
def test_whoever_meets_the_goal_ends_all(search: Callable[[Incumbent], None]) -> None:
    problem = synthetic.guillotine_packing(200)
    best = optimum_of(problem)
    incumbent = started(problem, Budget(time_limit_seconds=LONG))
    assert not incumbent.over

    def meet(side: Incumbent) -> None:
        side.offer(best, "luck")

    search_in_threads(incumbent, 2, search, meet)
    assert incumbent.best is best
    assert incumbent.found_by == "luck, thread 2"
    findings = incumbent.findings()
    assert [peak for _, peak in findings.incumbents] == sorted(
        {peak for _, peak in findings.incumbents}, reverse=True
    )
    assert findings.incumbents[-1][1] == best.peak


@pytest.mark.parametrize("limits", [{"time_limit_seconds": LONG}, {"node_limit": 10_000}])
def test_the_main_search_at_its_goal_ends_all(limits: dict[str, float]) -> None:
    problem = synthetic.guillotine_packing(200)
    best = optimum_of(problem)
    incumbent = started(problem, Budget(**limits))  # type: ignore[arg-type]
    search_in_threads(incumbent, 3, lambda main: main.offer(best, "luck"), walk_for_ever)
    assert incumbent.found_by == "luck"


def test_with_a_node_limit_every_thread_goes_to_its_end() -> None:
    incumbent = started(HARD, Budget(node_limit=3_000))

    def walk(side: Incumbent) -> None:
        OrderSearch(Shared(side, Portfolio(HARD))).walk()

    search_in_threads(incumbent, 3, lambda _: None, walk)
    assert incumbent.count == 1 + 2 * (3_000 - 1)


def test_what_is_called_later_heeds_no_signal() -> None:
    problem = synthetic.guillotine_packing(200)
    best = optimum_of(problem)
    incumbent = started(problem, Budget(time_limit_seconds=LONG))
    search_in_threads(incumbent, 2, wait_until_over, lambda side: side.offer(best, "luck"))
    assert plan(problem, 1, 100_000).status is Status.OPTIMAL


class BrokenError(Exception):
    pass


@pytest.mark.parametrize("limits", [{"time_limit_seconds": LONG}, {"node_limit": 100}])
def test_an_error_in_a_thread_is_raised(limits: dict[str, float]) -> None:
    incumbent = started(HARD, Budget(**limits))  # type: ignore[arg-type]

    def fail(_: Incumbent) -> None:
        raise BrokenError

    with pytest.raises(BrokenError):
        search_in_threads(incumbent, 2, lambda _: None, fail)


def test_an_error_of_the_main_search_ends_all() -> None:
    incumbent = started(HARD, Budget(time_limit_seconds=LONG))

    def fail(_: Incumbent) -> None:
        raise BrokenError

    with pytest.raises(BrokenError):
        search_in_threads(incumbent, 3, fail, walk_for_ever)


@pytest.fixture
def ctrl_c() -> Iterator[Callable[[], None]]:
    """Return what does as Ctrl-C does, from any thread; test runners may ignore the signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield _thread.interrupt_main
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_ends_all_and_keeps_the_best_plan(ctrl_c: Callable[[], None]) -> None:
    problem = synthetic.guillotine_packing(200)
    best = optimum_of(problem)
    incumbent = started(problem, Budget(node_limit=10_000))

    def offer(side: Incumbent) -> None:
        side.offer(best, "luck")
        ctrl_c()
        walk_for_ever(side)

    with pytest.raises(KeyboardInterrupt):
        search_in_threads(incumbent, 2, walk_for_ever, offer)
    assert incumbent.best is best


def test_auto_answers_ctrl_c_with_a_plan(
    ctrl_c: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = Turns.take_beside

    def take_beside(turns: Turns, shared: Shared) -> None:
        ctrl_c()
        beside(turns, shared)

    monkeypatch.setattr(Turns, "take_beside", take_beside)
    result = run(HARD, "auto", Budget(time_limit_seconds=LONG, threads=2))
    assert (result.status, result.interrupted) == (Status.FEASIBLE, True)


def test_pieces_of_a_nest_start_no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def note(main: Incumbent, threads: int, *searches: Callable[[Incumbent], object]) -> None:
        asked.append(threads)
        search_in_threads(main, threads, *searches)

    monkeypatch.setattr(auto_module, "search_in_threads", note)
    plan(synthetic.scaling_family(600, seed=1), 2, 10_000)
    assert asked[0] == 2
    assert set(asked[1:]) == {1}
