"""Benchmark of a user's waits: whole processes with their imports, and reading an instance."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from evaluation.benchmarks.worded_page import WordedPage, table_of
from evaluation.report.figure_texts import milliseconds
from instances.synthetic import training_graph
from planners import read_problem, write_problem
from planners.command_line.progress_line import show_progress
from planners.processes.child_process import run_to_end

TENSORS = 20_000
COMPARE = ("-m", "planners.compare")
FAST_PLANNERS = ("--planners", "greedy-*,many-*")


def responsiveness_page(instance: Path, command: str, repetitions: int) -> WordedPage:
    """Measure whole runs of the command line, the import, and the reader."""
    processes: dict[str, Sequence[str]] = {
        "`import numpy`": ("-c", "import numpy"),
        "`import numpy, planners`": ("-c", "import numpy, planners"),
        f"compare {instance.name}, greedy and Many Objects": (
            *COMPARE, str(instance), *FAST_PLANNERS,
        ),
        f"compare {instance.name}, everything": (*COMPARE, str(instance)),
    }  # fmt: skip
    rows = _rows(processes, repetitions)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.json"
        write_problem(training_graph(TENSORS, streams=100), path)
        reading = _reading_seconds(path, repetitions)
        figures = {
            "processes": table_of(["process", "wall", "processor"], rows),
            "tensors": f"{TENSORS:,}",
            "file-bytes": f"{path.stat().st_size:,}",
            "reading-ms": milliseconds(statistics.median(reading)),
            "reading-worst": milliseconds(max(reading)),
        }
    return WordedPage("responsiveness", command, figures)


def _reading_seconds(path: Path, repetitions: int) -> list[float]:
    """Return processor seconds of each reading.

    The first one counts too: it pays for fresh memory, as a user's first run does.
    """
    seconds = []
    for _ in range(repetitions):
        begun = time.process_time()
        read_problem(path)
        seconds.append(time.process_time() - begun)
    return seconds


def _rows(processes: dict[str, Sequence[str]], repetitions: int) -> list[list[str]]:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        # Python keeps compiled modules here, as for any user, even if the caller switched that off.
        environment = os.environ | {"PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}
        for label, arguments in processes.items():
            show_progress(label)
            _run(arguments, environment)
            runs = [_run(arguments, environment) for _ in range(repetitions)]
            wall, processor = (statistics.median(costs) for costs in zip(*runs, strict=True))
            rows.append([label, milliseconds(wall), milliseconds(processor)])
    return rows


def _run(arguments: Sequence[str], environment: Mapping[str, str]) -> tuple[float, float]:
    """Return wall and processor seconds of one Python process."""
    before, begun = os.times(), time.perf_counter()
    run_to_end([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, env=environment)
    wall, after = time.perf_counter() - begun, os.times()
    processor = after.children_user + after.children_system
    return wall, processor - before.children_user - before.children_system
