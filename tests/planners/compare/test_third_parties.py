"""Planners of third parties on the command line: claims, isolation, tracebacks, hostile ones."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from planners import GaplessError, Status
from planners.answers.isolated_planner import Isolation
from tests.planners.compare.conftest import Compare
from tests.planners.compare.test_process import GRACEFUL, interrupt_once_started

Plugin = Callable[[str], Path]

BOASTER = """
@planners.register("boaster")
def boaster(problem, budget):
    return planners.optimal(planners.place(problem, "unsafe", "first"), "trust\\n\\x1b[31mme")
"""
CLAIM = "claims by 'trust me' that no plan is below 14 bytes"


def test_a_claim_stands_in_its_own_row(compare: Compare, small: Path, plugin: Plugin) -> None:
    # Both have the same plan, which is not the best.
    arguments = (small, "--planners", "boaster,greedy-unsafe-first", "--plugin", plugin(BOASTER))
    answer = compare(*arguments, "--json")
    assert answer.exit_code == 0
    for row in json.loads(answer.stdout)["instances"][0]["results"]:
        assert (row["status"], row["peak"], row["lower_bound"]) == ("feasible", 14, 10)
        assert row["certificate"] == "lifetime"
        assert row["claim"] == (CLAIM if row["planner"] == "boaster" else None)


def test_a_claim_is_told_and_refuted(compare: Compare, small: Path, plugin: Plugin) -> None:
    arguments = (small, "--plugin", plugin(BOASTER), "--planners")
    alone = compare(*arguments, "boaster")
    assert f"\nboaster: feasible, {CLAIM}, which no planner of Gapless confirms\n" in alone.stdout
    assert f",{CLAIM}," in compare(small, "--planners", "boaster", "--csv").stdout
    refuted = compare(small, "--planners", "boaster,greedy-size-first")
    assert refuted.exit_code == 1
    assert (
        f"\nboaster: invalid, boaster {CLAIM}, and the valid plan of greedy-size-first has a peak "
        "of 10\n"
    ) in refuted.stdout


STATUSES = {status.value for status in Status}
HEAD = "@planners.register('hostile')\ndef hostile(problem, budget):\n    "
PLACE = "planners.place(problem)"

# What a planner does, and the status of its row: in this process, and in one of its own. The
# first is empty if only a process of its own protects the others.
HOSTILE: dict[str, tuple[str, str, str]] = {
    "raises": ("raise OSError('no')", "invalid", "invalid"),
    "raises no Exception": ("raise type('Own', (BaseException,), {})()", "invalid", "invalid"),
    "leaves": ("sys.exit(0)", "invalid", "invalid"),
    "closes its generator": ("raise GeneratorExit", "invalid", "invalid"),
    "recurses": ("def again(): return again()\n    return again()", "invalid", "invalid"),
    "returns nothing": ("pass", "invalid", "invalid"),
    "is a generator": ("yield planners.place(problem)", "invalid", "invalid"),
    "returns itself": ("return hostile", "invalid", "invalid"),
    "counts nothing": (
        f"return planners.Result(planners.Status.FEASIBLE, {PLACE}, statistics=None)",
        "invalid", "invalid",
    ),
    "reasons in numbers": (
        f"return planners.Result(planners.Status.FEASIBLE, {PLACE}, reason=7)",
        "invalid", "invalid",
    ),
    "claims to be interrupted": (
        "return planners.Result(planners.Status.FEASIBLE, "
        f"{PLACE}, interrupted=True)", "optimal", "optimal",
    ),
    "overlaps": ("return planners.Plan.of(problem, problem.size * 0)", "invalid", "invalid"),
    "boasts low": (f"return planners.feasible({PLACE}, 10**30, 'x')", "invalid", "invalid"),
    "sees no way": ("return planners.infeasible('x', 'no')", "invalid", "invalid"),
    "prints": (f"print('\\x1b[2J' * 99); return {PLACE}", "optimal", "optimal"),
    "writes below": (f"import os; os.write(1, b'x'); return {PLACE}", "optimal", "optimal"),
    "closes standard output": (f"import os; os.close(1); sys.stdout = None; return {PLACE}",
                               "", "optimal"),
    "ignores Ctrl-C": (f"import signal; signal.signal(2, signal.SIG_IGN); return {PLACE}",
                       "", "optimal"),
    "rings": (f"import signal; signal.alarm(1); return {PLACE}", "", "optimal"),
    "warns": (f"import warnings; warnings.warn('a\\nb\\x1b[1m'); return {PLACE}",
              "optimal", "optimal"),
    "makes warnings errors": (f"import warnings; warnings.simplefilter('error'); return {PLACE}",
                              "", "optimal"),
    "goes away": (f"import os; os.chdir('/'); return {PLACE}", "", "optimal"),
    "limits recursion": ("sys.setrecursionlimit(60); return planners.Plan([0], 1)",
                         "", "invalid"),
    "writes to sizes": ("problem.size.setflags(write=True)", "invalid", "invalid"),
    "assigns sizes": ("object.__setattr__(problem, 'size', problem.size * 0)\n"
                      "    return planners.Plan.of(problem, [0] * 5)", "", "invalid"),
    "judges itself": ("import planners.run\n"
                      "    run = planners.run; sys.modules['planners.check'] = None\n"
                      "    return planners.Plan([0] * 5, 0)", "", "invalid"),
    "has a boastful list": (f"return planners.feasible({PLACE}, certificate='x' * 10**6)",
                            "optimal", "optimal"),
    "hangs": ("time.sleep(600)", "", "no_plan_found"),
    "hangs, deaf": ("import signal\n    for n in (2, 15): signal.signal(n, signal.SIG_IGN)\n"
                    "    while True: pass", "", "no_plan_found"),
    "crashes": ("import os; os.kill(os.getpid(), 11)", "", "invalid"),
    "aborts": ("import os; os.kill(os.getpid(), 6)", "", "invalid"),
    "ends the process": ("import os; os._exit(0)", "", "invalid"),
    "eats memory": ("x = []\n    while True: x.append(bytearray(1 << 26))", "", "no_plan_found"),
    "closes everything": ("import os; os.closerange(3, 99); return planners.place(problem)",
                          "", "invalid"),
    "forks": ("import os; os.fork(); return planners.place(problem)", "", "optimal"),
    "floods the answer": ("import os\n    for n in range(3, 99):\n        try: os.write(n, b'x' * "
                          "4000)\n        except OSError: pass\n    return 1", "", "invalid"),
}  # fmt: skip


@pytest.mark.parametrize("output", ["--json", "--csv", "table"])
def test_whatever_third_parties_do_here_the_rest_goes_on(
    small: Path, plugin: Plugin, output: str
) -> None:
    rows = {name: (body, here) for name, (body, here, _) in HOSTILE.items() if here}
    found = compare_all(small, plugin, rows, output)
    assert found == expected(rows)


def test_whatever_third_parties_do_in_isolation_the_rest_goes_on(
    small: Path, plugin: Plugin
) -> None:
    rows = {name: (body, apart) for name, (body, _, apart) in HOSTILE.items()}
    isolation = ("--isolate", "--memory-limit", str(1 << 28), "--time-limit", "0.5")
    assert compare_all(small, plugin, rows, "--json", *isolation) == expected(rows)


def expected(rows: dict[str, tuple[str, str]]) -> dict[str, str]:
    return {name_of(row): status for row, (_, status) in rows.items()} | {"naive": "feasible"}


def name_of(row: str) -> str:
    return re.sub(r"\W+", "-", row.lower())


def compare_all(
    small: Path, plugin: Plugin, rows: dict[str, tuple[str, str]], output: str, *arguments: str
) -> dict[str, str]:
    """Run hostile planners as a user would, an honest one last, and return the statuses."""
    code = "\n".join(HEAD.replace("'hostile'", repr(name_of(row))) + body
                     for row, (body, _) in rows.items())  # fmt: skip
    names = ",".join([*map(name_of, rows), "naive"])
    command = [sys.executable, "-m", "planners.compare", str(small), "--planners", names]
    command += ["--plugin", str(plugin(code)), *arguments, "--sort", "chosen"]
    command += [output] if output != "table" else []
    done = subprocess.run(
        command, capture_output=True, text=True, errors="replace", timeout=300, check=False
    )
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert "\x1b" not in done.stdout
    if output == "--json":
        results = json.loads(done.stdout)["instances"][0]["results"]
        return {result["label"]: result["status"] for result in results}
    if output == "--csv":
        lines = csv.DictReader(io.StringIO(done.stdout))
        return {line["planner"]: line["status"] for line in lines}
    assert all(len(line) < 1200 for line in done.stdout.splitlines())
    lines = [line.removeprefix("*").split() for line in done.stdout.splitlines()[2:]]
    return {line[0]: line[1] for line in lines if len(line) > 5 and line[1] in STATUSES}


def test_a_plugin_that_leaves_while_it_loads_is_an_error(
    compare: Compare, small: Path, plugin: Plugin
) -> None:
    path = plugin("from planners import registry\nregistry.remove('naive')\nsys.exit(0)")
    answer = compare(small, "--plugin", path)
    assert answer.exit_code == 2
    assert answer.stderr.endswith(": SystemExit: 0\n")
    assert compare(small, "--planners", "naive").exit_code == 0


def test_a_parameter_that_cannot_be_read_is_an_error(
    compare: Compare, small: Path, plugin: Plugin
) -> None:
    path = plugin("@planners.register('odd')\ndef odd(problem, budget, key=None):\n    pass")
    answer = compare(small, "--plugin", path, "--planners", "odd:key=3")
    assert answer.exit_code == 2
    assert "parameter key: a value like None is needed, found '3'" in answer.stderr


@pytest.mark.parametrize("isolate", [(), ("--isolate",)])
def test_a_traceback_is_there_on_demand(
    small: Path, plugin: Plugin, isolate: tuple[str, ...]
) -> None:
    path = plugin(
        "def divide(a):\n    return a / 0\n\n"
        "@planners.register('faulty')\ndef faulty(problem, budget):\n    return divide(3)"
    )
    command = [sys.executable, "-m", "planners.compare", str(small), "--plugin", str(path)]
    command += ["--planners", "faulty,naive", *isolate, "--traceback"]
    shown = subprocess.run(command, capture_output=True, text=True, check=False)
    assert shown.returncode == 1
    lines = shown.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert f'  File "{path}", line 5, in divide' in lines
    assert lines[-1] == "ZeroDivisionError: division by zero"
    assert "faulty: invalid, ZeroDivisionError: division by zero\n" in shown.stdout


def test_a_memory_limit_needs_a_process(compare: Compare, small: Path) -> None:
    answer = compare(small, "--memory-limit", "5")
    assert answer.exit_code == 2
    assert answer.stderr == "error: --memory-limit: it needs --isolate, give both\n"
    answer = compare(small, "--isolate", "--memory-limit", "-5")
    assert answer.exit_code == 2
    assert answer.stderr.startswith("error: --memory-limit: ")
    assert (
        compare(small, "--planners", "naive", "--isolate", "--memory-limit", "1GiB").exit_code == 0
    )
    with pytest.raises(GaplessError, match="memory limit: 0 to 4611686018427387904 bytes"):
        Isolation(-5)


def test_every_planner_answers_alike_in_isolation(compare: Compare, small: Path) -> None:
    def rows(*arguments: str) -> dict[str, tuple[object, ...]]:
        answer = compare(small, "--json", "--time-limit", "20", *arguments)
        results = json.loads(answer.stdout)["instances"][0]["results"]
        fields = ("status", "peak", "lower_bound", "certificate", "reason", "parameters")
        return {row["label"]: tuple(row[field] for field in fields) for row in results}

    assert rows("--isolate") == rows()


def test_ctrl_c_in_isolation_prints_results_so_far(small: Path, plugin: Plugin) -> None:
    given = ("--planners", "graceful,naive", "--isolate", "--time-limit", "600")
    code, out, err = interrupt_once_started(small, "--plugin", plugin(GRACEFUL), *given)
    assert (code, err) == (130, "interrupted\n")
    assert "*  graceful  optimal" in out
    assert "interrupted; not run: naive\n" in out
