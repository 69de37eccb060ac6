"""Try a heuristic of your own, and compare it with proven optima.

A greedy planner places one tensor after the other, so a heuristic can be one line of thought: which
tensor comes first? Here it is the tensor that lives in the fullest step.
"""

import numpy as np

import planners
from instances.catalogue.catalogue_file import read_catalogue


def fullest_step(problem: planners.Problem) -> np.ndarray:
    """Tensors of the step with the most live bytes first."""
    change = np.zeros(problem.end.max() + 1, np.int64)
    np.add.at(change, problem.start, problem.size)
    np.add.at(change, problem.end, -problem.size)
    live = np.cumsum(change)
    lifetimes = zip(problem.start, problem.end, strict=True)
    return np.array([-live[start:end].max() for start, end in lifetimes])


planners.register_sort_key("fullest-step", fullest_step)

# The catalogue has networks whose least peak is proven.
networks = [
    entry
    for entry in read_catalogue().values()
    if entry.name.startswith("executorch-") and entry.best.status == "optimal"
]

# Run the new heuristic beside two others. The referee judges every plan.
heuristics = ["greedy-size-first", "greedy-breadth-first", "fullest-step"]
gaps = np.zeros((len(networks), len(heuristics)))
for row, entry in enumerate(networks):
    problem = planners.read_problem(entry.name)
    for column, heuristic in enumerate(heuristics):
        gaps[row, column] = planners.solve(problem, heuristic).peak / entry.best.peak - 1

# Show the networks on which the heuristics differ.
print(f"{'above the optimum':24}", *(f"{heuristic:>20}" for heuristic in heuristics))
for entry, gap in zip(networks, gaps, strict=True):
    if np.ptp(gap):
        print(f"{entry.name:24}", *(f"{value:20.1%}" for value in gap))
print(f"{'mean of all':24}", *(f"{value:20.1%}" for value in gaps.mean(axis=0)))
optima = (gaps == 0).sum(axis=0)
print(f"{'networks at the optimum':24}", *(f"{f'{n} of {len(networks)}':>20}" for n in optima))
