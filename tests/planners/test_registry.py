"""The registry: names, patterns, parameters, and what is refused."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from planners import registry
from planners.errors import GaplessError, UnknownPlannerError
from planners.model.budget import Budget
from planners.model.findings import Findings
from planners.model.plan import Plan
from planners.model.problem import Problem
from planners.search.auto import auto
from tests.installed_package import install


def zeros(problem: Problem, _budget: Budget, depth: int = 2, wide: bool = False) -> Plan:
    """Put everything at zero.

    More on that.
    """
    return Plan.of(problem, [0 * depth * wide] * problem.tensor_count)


@pytest.fixture
def own(own_registry: None) -> None:  # noqa: ARG001
    registry.register("own")(zeros)


@pytest.mark.usefixtures("own")
def test_a_planner_is_described_without_running_it() -> None:
    info = registry.get("own").info
    assert info.summary == "Put everything at zero."
    assert info.defaults == {"depth": 2, "wide": False}


@pytest.mark.usefixtures("own")
def test_a_taken_name_is_refused() -> None:
    with pytest.raises(GaplessError, match="must be free, found 'own' registered already"):
        registry.register("own")(zeros)


@pytest.mark.parametrize(
    "name", ["", "a,b", "a:b", "a*", "a b", "a=b", "a\n", "\x1b[1m", "\u202ea", "a" * 101]
)
def test_a_name_that_cannot_be_written_is_refused(name: str) -> None:
    with pytest.raises(GaplessError, match="planner name: letters, digits"):
        registry.register(name)(zeros)


def test_a_parameter_needs_a_default() -> None:
    def plan(problem: Problem, _budget: Budget, depth: int) -> Plan:
        return zeros(problem, _budget, depth)

    with pytest.raises(GaplessError, match="planner parameter depth: a default is needed"):
        registry.register("no-default")(plan)


def test_an_unknown_name_lists_near_ones() -> None:
    with pytest.raises(UnknownPlannerError, match="did you mean 'greedy-size-first'"):
        registry.get("greedy-sise-first")
    with pytest.raises(UnknownPlannerError, match=r"known: .*naive"):
        registry.get("zzzzzz")
    with pytest.raises(UnknownPlannerError, match=r"no planner matches 'zz\*'"):
        registry.choose("zz*")


def test_patterns_keep_their_order_and_name_each_once() -> None:
    chosen = registry.choose("many-objects-size-*, naive,greedy-size-best,greedy-size-*")
    assert [planner.label for planner in chosen] == [
        "many-objects-size-first", "many-objects-size-best", "naive", "greedy-size-best",
        "greedy-size-first",
    ]  # fmt: skip
    assert [info.name for info in registry.planners("naive")] == ["naive"]


def test_one_planner_is_one() -> None:
    assert registry.choose_one("naive") == registry.get("naive")
    assert registry.choose_one("pressur*").label == "pressure"
    with pytest.raises(UnknownPlannerError, match=r"one planner is needed, found 2 by 'naive,pre"):
        registry.choose_one("naive,pressure")


@pytest.mark.usefixtures("own")
def test_parameters_are_parsed_like_their_defaults() -> None:
    (chosen,) = registry.choose("own:depth=5:wide=true")
    assert chosen.parameters == {"depth": 5, "wide": True}
    assert chosen.label == "own:depth=5:wide=True"
    assert len(registry.choose("own,own:depth=5,own:depth=5")) == 2


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("own:depth", "a parameter is written KEY=VALUE, found 'depth'"),
        ("own:dept=1", "no parameter 'dept'; did you mean 'depth'"),
        ("own:depth=deep", "parameter depth: a value like 2 is needed, found 'deep'"),
        ("own:wide=5", "parameter wide: a value like False is needed, found '5'"),
        ("greedy-size-first:chain_rule=foo", "'exact' or 'paper' is needed, found 'foo'"),
        ("naive:depth=1", "planner naive has no parameter 'depth'; it takes none"),
    ],
)
def test_a_wrong_parameter_is_refused(pattern: str, message: str) -> None:
    with pytest.raises(UnknownPlannerError, match=message):
        registry.choose(pattern)


def test_a_choice_holds_for_callers_too() -> None:
    assert registry.get("greedy-size-first", chain_rule="paper").parameters == {
        "chain_rule": "paper"
    }
    with pytest.raises(UnknownPlannerError, match="'exact' or 'paper' is needed, found 'letter'"):
        registry.get("greedy-size-first", chain_rule="letter")


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("plugin.py", "x = 1", "it registers no planner"),
        ("plugin.py", "1 / 0", "ZeroDivisionError: division by zero"),
        ("plugin.py", "x =", "SyntaxError"),
        ("plugin.txt", "1 / 0", r"the name must end in \.py"),
    ],
)
def test_a_plugin_that_fails_leaves_nothing_behind(
    tmp_path: Path, name: str, code: str, message: str
) -> None:
    before = registry.planners()
    path = tmp_path / name
    registers = "from planners import register_sort_key as r\nr('half', lambda p: p.start)\n"
    path.write_text((registers if code == "1 / 0" else "") + code)
    with pytest.raises(GaplessError, match=message):
        registry.load_plugin(path)
    assert registry.planners() == before


# Its module asks every registry while it is loaded, and registers a planner of its own.
ASKS = """
import planners
from planners.recompute import choose_planners
from planners.files.formats import formats
from planners.registry import choose_online

def ask():
    planners.get("auto"), choose_planners("greedy"), choose_online("pytorch-caching")
    assert "onnx" in {form.name for form in formats()}

planners.get("auto")
planners.register("asks")(lambda problem, budget: None)
"""
THREADS = """
import threading
from importlib import import_module

def work(number):
    together.wait()
    import planners
    if number % 2:
        planners.get("auto")
    import_module("asking").ask()
    said.append(planners.get("asks").info.name)

said, together = [], threading.Barrier(6)
threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(*said)
"""


def test_threads_that_use_the_registries_first_have_all_of_them(tmp_path: Path) -> None:
    install(tmp_path, "asking", ASKS, registry.ENTRY_POINT_GROUP, "asking = asking:ask")
    done = subprocess.run(
        [sys.executable, "-c", THREADS],
        capture_output=True, text=True, check=True, timeout=60,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert (done.stdout.split(), done.stderr) == (["asks"] * 6, "")


def test_the_first_import_changes_neither_order_nor_trust() -> None:
    code = (
        "import planners.homosize.homosize, planners.search.auto\n"
        "from planners.registry import planners\n"
        "print(*(info.name for info in planners() if info.built_in))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [info.name for info in registry.planners() if info.built_in]


@pytest.mark.usefixtures("own_registry")
def test_a_wrapper_of_a_planner_of_ours_is_not_ours() -> None:
    @registry.register("wrapped")
    @functools.wraps(auto)
    def wrapped(problem: Problem, budget: Budget) -> Findings:
        return auto(problem, budget)

    assert not registry.get("wrapped").info.built_in
