"""The two searches of the core: what they decide, question by question."""

from __future__ import annotations

import random
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import numpy as np
import pytest

from planners import Budget, Plan, Problem, Status, _core, run
from planners.exact.branch_and_bound.branch_and_bound import NAME, Rules
from planners.exact.branch_and_bound.components import Component, components_of
from planners.exact.common_unit import ScaledBlocks, scale_blocks
from planners.referee.naive import find_violation
from planners.registry import get
from planners.testing.random_problems import FEATURES
from tests.interrupts import heard_within
from tests.planners.exact.brute_force import optimal_peak
from tests.planners.exact.search_cases import RULES, varied_problem, varied_rules
from tests.slow import in_parts

pytestmark = pytest.mark.core

FITS, REFUTED = _core.Verdict.FITS, _core.Verdict.REFUTED
NODE_LIMIT = _core.Verdict.NODE_LIMIT
MANY_NODES = 1_000_000
ORDER = [_core.SearchKey.SECTION_TOTAL, _core.SearchKey.LIFETIME, _core.SearchKey.AREA]
KEYS = tuple(_core.SearchKey)
MEMORY_PROBLEMS = range(850, 950)
# Above this sum of sizes the core counts in 64 bits.
WIDE = 1 << 30

Row = tuple[int, int, int]


def column(values: Sequence[int], dtype: type = np.int64) -> Any:
    return np.array(values, dtype=dtype)


def make(
    size: Sequence[int],
    rows: Sequence[Row],
    *,
    modulus: Sequence[int] | None = None,
    pinned: Sequence[int] | None = None,
    lifetime: Sequence[int] | None = None,
    sections: int | None = None,
) -> _core.SearchProblem:
    """Return single tensors that meet where their ``(tensor, first, last)`` do."""
    count = len(size)
    return _core.SearchProblem(
        column(modulus or [1] * count),
        column([0] * count),
        column(pinned or [-1] * count),
        column(range(count), np.int32),
        column([0] * count),
        column(size),
        column(lifetime or [1] * count, float),
        column([v for row in rows for v in row]).reshape(-1, 3),
        max((last for *_, last in rows), default=0) if sections is None else sections,
    )


def rules_of(chosen: dict[str, bool] | None = None) -> _core.CanonicalRules:
    return Rules(**(chosen or {})).for_core()


def decide_canonical(problem: _core.SearchProblem, capacity: int) -> _core.Decision:
    search = _core.CanonicalSearch(problem, 60.0)
    return search.decide(capacity, ORDER, MANY_NODES, 0, 0, rules_of(), 60.0)


def decide_disjunctive(problem: _core.SearchProblem, capacity: int) -> _core.Decision:
    search = _core.DisjunctiveSearch(problem, 60.0)
    return search.decide(capacity, MANY_NODES, True, False, 60.0)


Decide = Callable[[_core.SearchProblem, int], _core.Decision]
both = pytest.mark.parametrize("decide", [decide_canonical, decide_disjunctive])


def ask(part: Component, capacity: int, rng: random.Random, nodes: int) -> _core.Decision:
    """Ask with rules, order and wander by chance."""
    if isinstance(part.search, _core.DisjunctiveSearch):
        return part.search.decide(capacity, nodes, rng.random() < 0.7, False, 60.0)
    wander = rng.choice([0, 0, 300])
    order = rng.sample(KEYS, rng.randint(0, 4))
    rules = rules_of(varied_rules(rng))
    return part.search.decide(capacity, order, nodes, wander, rng.randrange(99), rules, 60.0)


def require_plan(
    problem: Problem, scaled: ScaledBlocks, parts: list[Component], found: list[list[int]]
) -> Plan:
    """Return the plan of all parts, which the slow referee accepts."""
    heads = scaled.lowest.copy()
    for part, offsets in zip(parts, found, strict=True):
        heads[part.blocks] = offsets
    plan = scaled.plan(problem, heads)
    assert find_violation(problem, plan) is None
    return plan


def optimum_of(problem: Problem) -> int | None:
    """Return what the planner says is the optimum, proven by brute force."""
    result = run(problem, get(NAME), Budget(node_limit=MANY_NODES))
    if result.status is not Status.OPTIMAL or result.peak is None:
        return None
    assert find_violation(problem, result.plan) is None if result.plan else False
    assert optimal_peak(problem, below=result.peak) is None
    return result.peak


def compare(seed: str, indices: range) -> Counter[object]:
    """Ask for the optimum, a little less and a little more; count the verdicts."""
    seen: Counter[object] = Counter()
    for index in indices:
        rng = random.Random(f"{seed}:{index}")
        problem = varied_problem(rng, (5, 9), FEATURES - {"capacity", "conflicts"})
        optimum = optimum_of(problem)
        assert optimum is not None, index
        scaled = scale_blocks(problem)
        parts = components_of(problem, scaled, Budget())
        if not parts:
            continue
        enough = scaled.down(optimum)
        for capacity in (enough, enough + rng.randint(1, 3)):
            found = [ask(part, capacity, rng, MANY_NODES) for part in parts]
            assert [d.verdict for d in found] == [FITS] * len(parts), f"{index} {capacity}"
            plan = require_plan(problem, scaled, parts, [d.offsets for d in found])
            assert plan.peak <= capacity * scaled.unit
            seen.update(type(part.search).__name__ for part in parts)
        if int((scaled.lowest + scaled.size).max()) * scaled.unit >= optimum:
            continue
        for capacity in (enough - 1, enough - rng.randint(1, 3)):
            verdicts = [ask(part, capacity, rng, MANY_NODES).verdict for part in parts]
            assert REFUTED in verdicts, f"{index} {capacity}"
            seen["refuted"] += 1
    return seen


@in_parts("indices", range(500), first=60)
def test_every_question_about_small_problems_is_answered_rightly(indices: range) -> None:
    seen = compare("questions", indices)
    asked = min(seen["CanonicalSearch"], seen["DisjunctiveSearch"], seen["refuted"])
    assert asked > 0.4 * len(indices)


@pytest.mark.long
def test_every_question_about_many_small_problems_is_answered_rightly(fresh_seed: int) -> None:
    print(compare(str(fresh_seed), range(30_000)))


def test_no_rule_refutes_what_another_search_finds() -> None:
    assert contradict("larger", 250)["refuted"] > 500


@pytest.mark.long
def test_no_rule_refutes_what_another_search_finds_at_length(fresh_seed: int) -> None:
    print(contradict(str(fresh_seed), 5_000))


def contradict(seed: str, problems: int) -> Counter[str]:
    """Ask the same of many rules and orders about problems beyond brute force.

    What fits needs no oracle: the plan is there. So whoever refutes it is wrong.
    """
    seen: Counter[str] = Counter()
    for index in range(problems):
        rng = random.Random(f"{seed}:{index}")
        problem = varied_problem(rng, (9, 15), FEATURES - {"capacity", "conflicts", "zero"})
        scaled = scale_blocks(problem)
        for part in components_of(problem, scaled, Budget()):
            sizes = scaled.size[part.blocks].tolist()
            least, most = part.least - 1, sum(sizes) + int(scaled.modulus.sum())
            verdicts = []
            for capacity in range(least, min(most, part.least + 4)):
                for _ in range(8):
                    decision = ask(part, capacity, rng, 3000)
                    verdicts.append((capacity, decision.verdict))
                    seen["memory"] += decision.counters.by_memory
                    if decision.verdict == FITS:
                        ends = [o + s for o, s in zip(decision.offsets, sizes, strict=True)]
                        assert max(ends) <= capacity
            fit = min((c for c, verdict in verdicts if verdict == FITS), default=most)
            refuted = [c for c, verdict in verdicts if verdict == REFUTED]
            assert max(refuted, default=-1) < fit, f"seed {seed}, problem {index}"
            seen["refuted"] += len(refuted)
    return seen


@both
def test_nothing_fits_anywhere(decide: Decide) -> None:
    empty = make([], [])
    for capacity in (0, 5):
        decision = decide(empty, capacity)
        assert (decision.verdict, decision.offsets) == (FITS, [])


@both
def test_one_tensor_needs_its_bytes(decide: Decide) -> None:
    one = make([5], [(0, 0, 1)])
    verdicts = [decide(one, capacity).verdict for capacity in (-1, 0, 4, 5, 6)]
    assert verdicts == [REFUTED, REFUTED, REFUTED, FITS, FITS]


@both
def test_a_capacity_far_below_zero_is_refuted(decide: Decide) -> None:
    one = make([5], [(0, 0, 1)])
    assert decide(one, -(1 << 40) + 100).verdict == REFUTED


@both
def test_pins_and_alignment(decide: Decide) -> None:
    """Tensor 1 is pinned to [4, 6); 0 of 4 bytes fits below, 2 at a multiple of 8 above."""
    problem = make(
        [4, 2, 3], [(0, 0, 1), (1, 0, 1), (2, 0, 1)], modulus=[4, 1, 8], pinned=[-1, 4, -1]
    )
    decision = decide(problem, 11)
    assert (decision.verdict, decision.offsets) == (FITS, [0, 4, 8])
    assert decide(problem, 10).verdict == REFUTED
    assert decide(problem, 5).verdict == REFUTED


@both
def test_touching_a_pin_is_no_overlap(decide: Decide) -> None:
    problem = make([3, 3, 3], [(0, 0, 1), (1, 0, 1), (2, 0, 1)], pinned=[-1, 3, -1])
    assert sorted(decide(problem, 9).offsets) == [0, 3, 6]
    assert decide(problem, 8).verdict == REFUTED


def test_a_lifetime_is_counted_in_steps_and_not_in_sections() -> None:
    """All three meet in one section; who lives longest lies lowest, and then who is largest."""
    rows = [(0, 0, 1), (1, 0, 1), (2, 0, 1)]
    problem = make([2, 3, 4], rows, lifetime=[7, 1, 5])
    order = [_core.SearchKey.LIFETIME]
    search = _core.CanonicalSearch(problem, 60.0)
    assert search.decide(9, order, 9, 0, 0, rules_of(), 60.0).offsets == [0, 6, 2]
    order = [_core.SearchKey.AREA]
    assert search.decide(9, order, 9, 0, 0, rules_of(), 60.0).offsets == [4, 6, 0]


def test_the_order_in_which_tensors_are_given_does_not_matter() -> None:
    # Two of these 40 questions are searched otherwise where ties go by index.
    count, nodes = 40, set()
    for seed in range(20):
        rng = random.Random(seed)
        size = [rng.randint(1, 4) for _ in range(count)]
        rows = hard_rows(rng, count)
        shuffled = rng.sample(range(count), count)
        place = {tensor: index for index, tensor in enumerate(shuffled)}
        searches = [
            _core.CanonicalSearch(problem, 60.0)
            for problem in (
                make(size, rows),
                make([size[t] for t in shuffled], sorted((place[t], a, b) for t, a, b in rows)),
            )
        ]
        least = max(sum(size[t] for t, a, b in rows if a <= s < b) for s in range(count))
        for capacity in (least, least + 1):
            one, other = (
                search.decide(capacity, ORDER, 3000, 0, 0, rules_of(), 60.0) for search in searches
            )
            assert (one.verdict, one.counters.nodes) == (other.verdict, other.counters.nodes)
            nodes.add(one.counters.nodes)
    assert len(nodes) > 5


def hard_rows(rng: random.Random, tensors: int) -> list[Row]:
    rows = []
    for tensor in range(tensors):
        first = rng.randrange(tensors)
        rows.append((tensor, first, min(tensors, first + rng.randint(1, tensors // 3 + 1))))
    return rows


@pytest.mark.parametrize("factor", [1 << 27, 1 << 40])
def test_numbers_of_32_and_64_bits_search_alike(factor: int) -> None:
    for seed in range(25):
        rng = random.Random(seed)
        size = [rng.randint(1, 9) for _ in range(12)]
        rows = hard_rows(rng, 12)
        modulus = [rng.choice([1, 1, 2, 4]) for _ in size]
        pinned = [-1] * 11 + [4 if seed % 3 == 0 else -1]
        assert sum(size) < WIDE < sum(size) * factor
        narrow = make(size, rows, modulus=modulus, pinned=pinned)
        wide = make(
            [s * factor for s in size],
            rows,
            modulus=[m * factor for m in modulus],
            pinned=[p * factor if p >= 0 else -1 for p in pinned],
        )
        for capacity in range(10, 30):
            one, other = (
                decide_canonical(narrow, capacity),
                decide_canonical(wide, capacity * factor),
            )
            assert one.verdict == other.verdict
            assert [o * factor for o in one.offsets] == other.offsets
            assert one.counters.nodes == other.counters.nodes


@pytest.fixture
def open_question(hard: Problem) -> tuple[_core.CanonicalSearch, int]:
    """Return a search and a capacity that nobody decides in seconds."""
    (part,) = components_of(hard, scale_blocks(hard), Budget())
    assert isinstance(part.search, _core.CanonicalSearch)
    return part.search, part.least


def test_no_time_is_an_error_that_says_so(
    open_question: tuple[_core.CanonicalSearch, int],
) -> None:
    search, capacity = open_question
    with pytest.raises(TimeoutError, match="time limit"):
        search.decide(capacity, ORDER, 1 << 60, 0, 0, rules_of(), 0.0)


def test_ctrl_c_ends_a_search(open_question: tuple[_core.CanonicalSearch, int]) -> None:
    search, capacity = open_question
    with pytest.raises(KeyboardInterrupt):
        heard_within(search.decide)(capacity, ORDER, 1 << 60, 0, 0, rules_of(), 20.0)


def test_a_search_is_asked_by_one_at_a_time(
    open_question: tuple[_core.CanonicalSearch, int],
) -> None:
    """A handler of signals asks the search that it interrupted, as another thread might."""
    search, capacity = open_question
    refused: list[str] = []

    def ask(_signal: int, _frame: FrameType | None) -> None:
        try:
            search.decide(capacity, ORDER, 1, 0, 0, rules_of(), 1.0)
        except RuntimeError as error:
            refused.append(str(error))
        raise InterruptedError

    before = signal.signal(signal.SIGALRM, ask)
    decide = heard_within(search.decide, signal.SIGALRM)
    try:
        with pytest.raises(InterruptedError):
            decide(capacity, ORDER, 1 << 60, 0, 0, rules_of(), 20.0)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert ["one question at a time" in text for text in refused] == [True]
    assert search.decide(capacity, ORDER, 7, 0, 0, rules_of(), 60.0).counters.nodes == 7


@pytest.mark.parametrize("nodes", [0, 1, 7, 100])
def test_a_node_limit_is_kept(nodes: int, open_question: tuple[_core.CanonicalSearch, int]) -> None:
    search, capacity = open_question
    decision = search.decide(capacity, ORDER, nodes, 0, 0, rules_of(), 60.0)
    assert decision.verdict == NODE_LIMIT
    assert decision.counters.nodes == nodes


def test_memory_refutes_nothing_that_a_search_without_it_finds() -> None:
    # Few rules leave many states; a memory that forgets to compare offsets is wrong in one of
    # thousands, and this seed has it.
    assert remember("mem", MEMORY_PROBLEMS) > 1000


@pytest.mark.long
def test_memory_refutes_nothing_in_a_long_run(fresh_seed: int) -> None:
    print(remember(str(fresh_seed), range(50_000)))


def remember(seed: str, indices: range) -> int:
    """Ask with memory what was found without, few other rules on; return how often it pruned."""
    recalled = 0
    for index in indices:
        rng = random.Random(f"{seed}:{index}")
        features = FEATURES - {"capacity", "conflicts", "zero", "chains"}
        problem = varied_problem(rng, (6, 12), features)
        for part in components_of(problem, scale_blocks(problem), Budget()):
            if len(part.blocks) < 5 or isinstance(part.search, _core.DisjunctiveSearch):
                continue
            for capacity in range(part.least, part.least + 3):
                for _ in range(4):
                    order = rng.sample(KEYS, 2)
                    chosen = {rule: rng.random() < 0.3 for rule in RULES}
                    wander = rng.choice([0, 0, 500])
                    verdicts = []
                    for memory in (False, True):
                        rules = rules_of({**chosen, "memory": memory})
                        decision = part.search.decide(capacity, order, 2000, wander, 1, rules, 60.0)
                        verdicts.append(decision.verdict)
                        recalled += decision.counters.by_memory
                    assert verdicts != [FITS, REFUTED], f"seed {seed}, problem {index}"
    return recalled
