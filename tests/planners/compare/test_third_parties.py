"""Planners of third parties on the command line: claims, isolation, tracebacks, hostile ones."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from planners import GaplessError
from planners.answers.isolated_planner import Isolation
from tests.planners.compare.conftest import compare
from tests.planners.compare.test_process import GRACEFUL, interrupt_once_started

Plugin = Callable[[str], Path]

BOASTER = """
@planners.register("boaster")
def boaster(problem, budget):
    return planners.optimal(planners.place(problem, "unsafe", "first"), "trust\\n\\x1b[31mme")
"""
CLAIM = "claims by 'trust me' that no plan is below 14 bytes"


def test_a_claim_stands_in_its_own_row(small: Path, plugin: Plugin) -> None:
    # Both have the same plan, which is not the best.
    arguments = (small, "--planners", "boaster,greedy-unsafe-first", "--plugin", plugin(BOASTER))
    answer = compare(*arguments, "--json")
    assert answer.exit_code == 0
    for row in json.loads(answer.stdout)["instances"][0]["results"]:
        assert (row["status"], row["peak"], row["lower_bound"]) == ("feasible", 14, 10)
        assert row["certificate"] == "lifetime"
        assert row["claim"] == (CLAIM if row["planner"] == "boaster" else None)


def test_a_claim_is_told_and_refuted(small: Path, plugin: Plugin) -> None:
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


HEAD = "@planners.register('hostile')\ndef hostile(problem, budget):\n    "

PLACED = "return planners.place(problem)"
# What planners do in processes of their own, by the status of their rows.
HOSTILE = {
    "invalid": {
        "raises": "raise OSError('no')",
        "leaves": "sys.exit(0)",
        "recurses": "def again(): return again()\n    return again()",
        "returns nothing": "pass",
        "overlaps": "return planners.Plan.of(problem, problem.size * 0)",
        "limits recursion": "sys.setrecursionlimit(60); return planners.Plan([0], 1)",
        "writes to sizes": "problem.size.setflags(write=True)",
        "assigns sizes": "object.__setattr__(problem, 'size', problem.size * 0)\n"
        "    return planners.Plan.of(problem, [0] * 5)",
        "judges itself": "import planners.run\n    sys.modules['planners.check'] = None\n"
        "    return planners.Plan([0] * 5, 0)",
        "crashes": "import os; os.kill(os.getpid(), 11)",
        "aborts": "import os; os.kill(os.getpid(), 6)",
        "ends the process": "import os; os._exit(0)",
        "closes everything": f"import os; os.closerange(3, 99); {PLACED}",
        "floods the answer": "import os\n    for n in range(3, 99):\n        try: "
        "os.write(n, b'x' * 4000)\n        except OSError: pass\n    return 1",
    },
    "no_plan_found": {
        "hangs": "time.sleep(600)",
        "hangs, deaf": "import signal\n    for n in (2, 15): signal.signal(n, signal.SIG_IGN)\n"
        "    while True: pass",
        "eats memory": "x = []\n    while True: x.append(bytearray(1 << 26))",
    },
    "optimal": {
        "claims to be interrupted": "return planners.Result(planners.Status.FEASIBLE, "
        "planners.place(problem), interrupted=True)",
        "prints": f"print('\\x1b[2J' * 99); {PLACED}",
        "writes below": f"import os; os.write(1, b'x'); {PLACED}",
        "closes standard output": f"import os; os.close(1); sys.stdout = None; {PLACED}",
        "ignores Ctrl-C": f"import signal; signal.signal(2, signal.SIG_IGN); {PLACED}",
        "rings": f"import signal; signal.alarm(1); {PLACED}",
        "warns": f"import warnings; warnings.warn('a\\nb\\x1b[1m'); {PLACED}",
        "makes warnings errors": f"import warnings; warnings.simplefilter('error'); {PLACED}",
        "goes away": f"import os; os.chdir('/'); {PLACED}",
        "forks": f"import os; os.fork(); {PLACED}",
    },
}


def test_whatever_third_parties_do_in_isolation_the_rest_goes_on(
    small: Path, plugin: Plugin
) -> None:
    """Planners run as a user would run them, an honest one last."""
    code, expected = "", {}
    for status, planners in HOSTILE.items():
        for row, body in planners.items():
            name = re.sub(r"\W+", "-", row.lower())
            code += HEAD.replace("'hostile'", repr(name)) + body + "\n"
            expected[name] = status
    command = [sys.executable, "-m", "planners.compare", str(small), "--plugin", str(plugin(code))]
    command += ["--planners", ",".join([*expected, "naive"]), "--json", "--isolate"]
    command += ["--memory-limit", str(1 << 28), "--time-limit", "0.5"]
    done = subprocess.run(
        command, capture_output=True, text=True, errors="replace", timeout=300, check=False
    )
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert "\x1b" not in done.stdout
    results = json.loads(done.stdout)["instances"][0]["results"]
    found = {result["label"]: result["status"] for result in results}
    assert found == expected | {"naive": "feasible"}


def test_a_plugin_that_leaves_while_it_loads_is_an_error(small: Path, plugin: Plugin) -> None:
    path = plugin("from planners import registry\ndel registry.PLANNERS['naive']\nsys.exit(0)")
    answer = compare(small, "--plugin", path)
    assert answer.exit_code == 2
    assert answer.stderr.endswith(": SystemExit: 0\n")
    assert compare(small, "--planners", "naive").exit_code == 0


def test_a_parameter_that_cannot_be_read_is_an_error(small: Path, plugin: Plugin) -> None:
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


def test_a_memory_limit_is_checked(small: Path) -> None:
    given = ("--planners", "naive", "--isolate", "--memory-limit", "1GiB")
    assert compare(small, *given).exit_code == 0
    with pytest.raises(GaplessError, match="memory limit: 0 to 4611686018427387904 bytes"):
        Isolation(-5)


def test_every_planner_answers_alike_in_isolation(small: Path) -> None:
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
