"""``python -m tests.fuzz.bindings``: hostile arguments for all that the two cores export.

Cases run in child processes, so that a crash is an outcome: it is told with the seed, the case and
the call that ended the process.
"""

from __future__ import annotations

import argparse
import mmap
import os
import resource
import subprocess
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import NoReturn

from tests.fuzz.case import Case

CASES_A_CHILD = 400
CPU_SECONDS = 120
WALL_SECONDS = 300
CORES = ("planners", "gpu_runtime")
# Of what is written to, not of addresses: an arena reserves half a TiB and uses little. A sanitizer
# takes more.
MEMORY_BYTES = 3 << 30
# Of a simulated device, which is a file; a check of overwrites fills what it is given.
FILE_BYTES = 1 << 28
LAST_CALL_BYTES = 1 << 16


@dataclass(frozen=True)
class Outcome:
    """What came of some cases.

    Parameters
    ----------
    calls
        That were made.
    failure
        What ended a case, and how to see it again; empty where nothing did.
    never_answered
        What was refused each time, or never returned.
    """

    calls: int
    failure: str = ""
    never_answered: frozenset[str] = frozenset()


def run_cases(core: str, seed: int, first: int, count: int) -> Outcome:
    """Run cases in a process of their own.

    Parameters
    ----------
    core
        ``planners`` or ``gpu_runtime``.
    seed
        Start of every random choice.
    first, count
        Which cases.

    Returns
    -------
    Outcome
        With the first failure, if any.
    """
    with TemporaryDirectory() as folder:
        last_call = Path(folder, "last call")
        last_call.write_bytes(bytes(LAST_CALL_BYTES))
        # Objects that were never made are warned of.
        command = [sys.executable, "-W", "ignore::RuntimeWarning", "-m", "tests.fuzz.bindings"]
        command += ["--child", str(last_call)]
        command += ["--core", core, "--seed", str(seed), "--first", str(first)]
        command += ["--count", str(count)]
        try:
            child = subprocess.run(
                command, capture_output=True, text=True, timeout=WALL_SECONDS, check=False
            )
            status, output = child.returncode, child.stdout + child.stderr
        except subprocess.TimeoutExpired:
            status, output = None, f"no end after {WALL_SECONDS} s"
        if status == 0:
            calls, *never_answered = output.splitlines()[-1].split()
            return Outcome(int(calls), never_answered=frozenset(never_answered))
        case, _, call = last_call.read_bytes().partition(b"\0")[0].decode().partition("\n")
        return Outcome(
            0,
            f"python -m tests.fuzz.bindings --core {core} --seed {seed} --first {case} --count 1\n"
            f"exit status {status} at {call}\n{output[-6000:]}",
        )


def run_in_this_process(core: str, seed: int, first: int, count: int, last_call: Path) -> str:
    """Run cases; return the number of calls, and what was never answered.

    Each call is written down before it is made.
    """
    calls_of = _calls_of(core)
    _limit()
    # Listeners that fail are a part of what is drawn.
    sys.unraisablehook = lambda _: None
    calls, answers = 0, Counter[str]()
    with last_call.open("r+b") as file, mmap.mmap(file.fileno(), LAST_CALL_BYTES) as told:
        for number in range(first, first + count):
            rng = Random(f"{core} {seed} {number}")

            def tell(call: str, number: int = number) -> None:
                text = f"{number}\n{call}".encode()[: LAST_CALL_BYTES - 1]
                told[: len(text) + 1] = text + b"\0"

            if number < 0:
                _abort(tell)
            case = _run_case(rng, calls_of, tell)
            calls += case.calls
            answers.update(case.answers)
    return " ".join([str(calls), *(name for name, count in answers.items() if not count)])


def _abort(tell: Callable[[str], None]) -> NoReturn:
    """Show that a crash is told: the case before the first is one."""
    tell("abort()")
    os.abort()


def _run_case(
    rng: Random, calls_of: list[Callable[..., None]], tell: Callable[[str], None]
) -> Case:
    case = Case(rng, tell)
    for _ in range(rng.randint(1, 4)):
        rng.choice(calls_of)(case)
    case.end()
    return case


def _calls_of(core: str) -> list[Callable[..., None]]:
    if core == "planners":
        from tests.fuzz import planners_calls

        return list(planners_calls.CALLS)
    from tests.fuzz import runtime_calls

    return list(runtime_calls.CALLS)


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
    if "libasan" not in os.environ.get("LD_PRELOAD", ""):
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))


def main() -> int:
    """Run as many cases as asked for; exit with 1 at the first failure."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.bindings", description=__doc__)
    parser.add_argument("--core", choices=CORES, default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=2000, help="cases of each core")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child is not None:
        try:
            print(
                run_in_this_process(asked.core, asked.seed, asked.first, asked.count, asked.child)
            )
        except BaseException:
            traceback.print_exc()
            return 1
        return 0
    for core in CORES if asked.core is None else (asked.core,):
        calls = 0
        for first in range(asked.first, asked.first + asked.count, CASES_A_CHILD):
            count = min(CASES_A_CHILD, asked.first + asked.count - first)
            outcome = run_cases(core, asked.seed, first, count)
            if outcome.failure:
                print(outcome.failure)
                return 1
            calls += outcome.calls
        print(f"{core}: {asked.count} cases with {calls} calls, seed {asked.seed}: no failure")
    return 0


if __name__ == "__main__":
    sys.exit(main())
