"""Run a study of your own on a cluster: which heuristic is best on packings that leave no room?

A cluster of two workers on this machine stands in for yours. For a cluster that is there already,
give the address of its scheduler: `python examples/study_on_a_cluster.py tcp://HOST:8786`.
"""

import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from statistics import mean

from distributed import LocalCluster

from evaluation.study.gaps import facts_of, gaps_of
from evaluation.study.record import OffsetsRecord
from evaluation.study.records_file import read_records

# Three planners on eight instances: 24 runs, each in a process of its own.
STUDY = """
question = "Which heuristic is best on packings that leave no room?"
budget_seconds = 10

[[grid]]
planners = ["greedy-size-first", "greedy-breadth-first", "pressure"]

[[grid.instances]]
family = "guillotine-packing"
parameters = { tensors = [60, 120], steps = 256 }
seeds = [1, 2, 3, 4]
"""


def run_study(scheduler: str) -> None:
    """Run the study; after an interrupt, the same call makes the runs that are missing."""
    Path("packings.toml").write_text(STUDY, encoding="utf-8")
    command = [sys.executable, "-m", "evaluation.study", "run", "packings.toml"]
    options = ["-o", "packings.jsonl", "--scheduler", scheduler]
    subprocess.run([*command, *options], check=True, capture_output=True)


def show_records() -> None:
    """Print how far each planner is above the best known bound, in the mean."""
    records = [
        record
        for record in read_records(Path("packings.jsonl"))
        if isinstance(record, OffsetsRecord)
    ]
    facts = facts_of(records)
    gaps = defaultdict(list)
    for record in records:
        gaps[record.planner].append(gaps_of(record, facts[record.subject]).to_bound or 0.0)
    for planner, found in sorted(gaps.items()):
        print(f"{planner:21} {len(found)} runs, {mean(found):6.1%} above the bound in the mean")


if __name__ == "__main__":
    if sys.argv[1:]:
        run_study(sys.argv[1])
    else:
        with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
            run_study(cluster.scheduler_address)
    show_records()
