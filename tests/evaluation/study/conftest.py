"""A study of a few tiny instances, and planners that misbehave."""

from __future__ import annotations

from pathlib import Path

import pytest

# The message of a study that was ended.
RESUMES = "results/tiny.jsonl keeps the records of all ended runs; the same command resumes there"

# A plugin that harms the process that runs it.
MISBEHAVING = '''
import ctypes, os, signal, sys, time
import planners
from planners import Plan

@planners.register("segfaults")
def segfaults(problem, budget):
    """Read at address 0."""
    ctypes.string_at(0)

@planners.register("hangs")
def hangs(problem, budget):
    """Take no notice of the time, nor of signals."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(1)

@planners.register("eats-memory")
def eats_memory(problem, budget):
    """Take memory until there is none."""
    eaten = []
    while problem.tensor_count > 2:
        eaten.append(bytearray(1 << 26))
    return Plan.of(problem, [0] * problem.tensor_count)

@planners.register("is-killed")
def is_killed(problem, budget):
    """End as where the system is short of memory."""
    os.kill(os.getpid(), signal.SIGKILL)

@planners.register("exits")
def exits(problem, budget):
    """End the process in the middle."""
    os._exit(3)

@planners.register("overlaps")
def overlaps(problem, budget):
    """Put all tensors on the same bytes."""
    return Plan.of(problem, [0] * problem.tensor_count)

@planners.register("prints")
def prints(problem, budget):
    """Print what looks like a record, and answer well."""
    os.write(1, b'{"schema":1}\\\\n')
    print('{"schema":1}')
    return planners.solve(problem, "greedy-size-first")

@planners.register("waits")
def waits(problem, budget, gate=""):
    """Answer well; the last instance only once the gate is a file."""
    is_last = (problem.tensor_count, problem.origin["seed"]) == (9, 2)
    while gate and is_last and not os.path.exists(gate):
        time.sleep(0.01)
    return planners.solve(problem, "greedy-size-first")
'''

STUDY = """
question = "Does it run?"
planners = ["waits", "naive"]
plugins = ["misbehaving.py"]
seconds = 30

[[grid]]
[[grid.instances]]
family = "random-lifetimes"
parameters = { tensors = [8, 9] }
seeds = [0, 1, 2]
"""


@pytest.fixture
def study_folder(tmp_path: Path) -> Path:
    """A folder with the study ``tiny`` of twelve runs, and its plugin."""
    (tmp_path / "misbehaving.py").write_text(MISBEHAVING)
    (tmp_path / "tiny.toml").write_text(STUDY)
    return tmp_path


@pytest.fixture
def held_study(study_folder: Path) -> Path:
    """The same study, which cannot end before its file ``gate`` is there."""
    text = (study_folder / "tiny.toml").read_text()
    held = f'"waits:gate={study_folder / "gate"}"'
    (study_folder / "tiny.toml").write_text(text.replace('"waits"', held))
    return study_folder
