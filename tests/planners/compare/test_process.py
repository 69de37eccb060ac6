"""``python -m planners.compare`` as a process: signals, pipes, terminals, standard output."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

Plugin = Callable[[str], Path]

COMMAND = [sys.executable, "-m", "planners.compare"]
PATIENCE_SECONDS = 60

# A wait is short, because a signal that comes right before it does not end it.
DEAF = """
@planners.register("deaf")
def deaf(problem, budget):
    import signal
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    return planners.place(problem)
"""
SLOW = """
@planners.register("slow")
def slow(problem, budget):
    print("started", file=sys.stderr, flush=True)
    while True:
        time.sleep(0.01)
"""
GRACEFUL = """
@planners.register("graceful")
def graceful(problem, budget):
    try:
        print("started", file=sys.stderr, flush=True)
        while True:
            time.sleep(0.01)
    except KeyboardInterrupt:
        pass
    return planners.place(problem)
"""


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip


STARTS = """
from ortools.sat.python.cp_model import CpSolver
solve = CpSolver.solve
def say(*given):
    print("started", file=sys.stderr, flush=True)
    return solve(*given)
CpSolver.solve = say
@planners.register("starter")
def starter(problem, budget):
    return planners.place(problem)
"""


def interrupt_once_started(*arguments: str | Path) -> tuple[int, str, str]:
    """Start a comparison, send SIGINT after the plugin says so, and return what came."""
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    assert process.stderr.readline() == "started\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    return process.returncode, out, err


def test_ctrl_c_prints_results_so_far(small: Path, plugin: Plugin) -> None:
    # A planner that ran before may have set handlers of its own.
    path = plugin(DEAF + SLOW)
    code, out, err = interrupt_once_started(
        small, "--planners", "naive,deaf,slow,greedy-size-first", "--plugin", path
    )
    assert code == 130
    assert err == "interrupted\n"
    assert "naive  " in out
    assert "slow: no_plan_found, interrupted\n" in out
    assert "interrupted; not run: greedy-size-first\n" in out


def test_ctrl_c_keeps_the_plan_of_a_planner_that_answers(small: Path, plugin: Plugin) -> None:
    path = plugin(GRACEFUL)
    code, out, _ = interrupt_once_started(
        small, small, "--planners", "graceful,naive", "--plugin", path, "--json"
    )
    assert code == 130
    (instance,) = json.loads(out)["instances"]
    assert instance["interrupted"] is True
    assert instance["left_out"] == ["naive"]
    assert [result["status"] for result in instance["results"]] == ["optimal"]


def test_ctrl_c_ends_a_search_in_compiled_code(tmp_path: Path, plugin: Plugin) -> None:
    # A thousand tensors alive at random: neither solved nor given up within the patience.
    random = np.random.default_rng(5)
    rows = zip(random.integers(0, 900, 1000), random.integers(1, 300, (1000, 2)), strict=True)
    lines = [f"{i},{low},{low + long},{size}" for i, (low, (long, size)) in enumerate(rows)]
    path = tmp_path / "hard.csv"
    path.write_text("\n".join(["id,lower,upper,size", *lines]))
    given = ("--planners", "starter,cp-sat,naive", "--time-limit", "50")
    code, out, err = interrupt_once_started(path, "--plugin", plugin(STARTS), *given)
    assert code == 130, err
    assert "terminate" not in err
    assert "starter" in out
    assert "interrupted; not run: naive\n" in out


def test_neither_plugins_nor_compiled_code_print_into_the_answer(
    small: Path, plugin: Plugin
) -> None:
    path = plugin(
        "import os\n"
        "print('hello')\n"
        "@planners.register('noisy')\n"
        "def noisy(problem, budget):\n"
        "    print('thinking', flush=True)\n"
        "    os.write(1, b'from below')\n"
        "    return planners.place(problem)\n"
    )
    answer = run(small, "--planners", "noisy", "--plugin", path, "--json")
    assert json.loads(answer.stdout)["instances"][0]["results"][0]["planner"] == "noisy"
    assert answer.stderr == "hello\nthinking\nfrom below"


def test_a_closed_reader_is_not_an_error(small: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    process = subprocess.run(
        [*COMMAND, str(small), "--planners", "naive"],
        stdout=write, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip
    os.close(write)
    assert process.stderr == ""
    assert process.returncode == 141


def shown_on_a_terminal(columns: int, *arguments: str | Path) -> str:
    main, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(columns)}
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdout=terminal, stderr=terminal, stdin=terminal, env=environment,
    )  # fmt: skip
    os.close(terminal)
    received = b""
    while True:
        try:
            piece = os.read(main, 65536)
        except OSError:  # the terminal is gone with its last process
            break
        if not piece:
            break
        received += piece
    os.close(main)
    assert process.wait(PATIENCE_SECONDS) == 0
    return received.decode()


def test_a_terminal_gets_colour_and_progress(small: Path) -> None:
    text = shown_on_a_terminal(120, small, "--planners", "naive,greedy-size-first")
    assert "small: greedy-size-first (2 of 2)" in text
    assert "\x1b[1;32m" in text
    assert "optimal" in text


def test_on_a_terminal_lines_break_between_words(small: Path) -> None:
    text = shown_on_a_terminal(60, small, "--planners", "greedy-size-first", "--capacity", "1GiB")
    # What stays on the screen of each line, without colours.
    lines = [
        re.sub(r"\x1b\[[0-9;]*[mK]", "", line).removesuffix("\r").split("\r")[-1]
        for line in text.split("\n")
    ]
    assert max(map(len, lines)) <= 60
    assert lines[0].startswith("small: 5 tensors, ")
    assert {"unsafe;", "lifetime", "(1,073,741,824);"} <= set(" ".join(lines[:4]).split())
    assert "small: fits, shown by greedy-size-first: peak 10 B (10)" in lines


def test_a_table_for_programs_loads_nothing_heavy(small: Path) -> None:
    code = (
        "import sys; sys.argv = sys.argv[1:]\n"
        "from planners.compare.__main__ import app\n"
        "app(standalone_mode=False)\n"
        "sys.exit('matplotlib' in sys.modules or 'ortools' in sys.modules)\n"
    )
    arguments = ["compare", str(small), "--planners", "greedy-*", "--csv"]
    answer = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
