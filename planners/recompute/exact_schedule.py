"""CP-SAT over what runs again and when: the fewest seconds more within a limit, for small steps.

Note [The exact model]
~~~~~~~~~~~~~~~~~~~~~~
Rationale. For small steps the question can be answered completely, order included.

Approach. First runs keep their order. In front of each lies room for every second run. A unit that
runs again takes one place there for each of its nodes; no two runs share a place. Each tensor has a
first copy and, if its unit runs again, a second one. A run reads the second copy if that is made
before, else the first. A copy lives from the run that makes it to the last that reads it; the
copies that live at one place have together at most the limit. The cost is the seconds of all second
runs, in parts of a billionth of the step. This is the formulation by retention intervals of
Bartan et al. 2023 (Moccasin), with at most two runs a unit.

Limits. Bytes are added up, and offsets come later: they may need more than the limit. Nothing is
sent away.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from planners.exact.interruptible import run_interruptibly
from planners.exact.model_limits import ModelTooLargeError, require_time, solver_seconds
from planners.model.budget import Budget
from planners.recompute.limit_planner import TIME_IS_OVER, LimitAnswer
from planners.recompute.repeatable_step import Choice, RepeatableStep, Sequence32

CERTIFICATE = "cp-sat"
# Larger steps take CP-SAT minutes.
MOST_NODES = 150
# The cost of the whole step in whole numbers, which CP-SAT needs.
COST_OF_STEP = 10**9
GRACE_SECONDS = 10.0


def exact_schedule(
    step: RepeatableStep, limit: int, budget: Budget, start: Choice | None = None
) -> LimitAnswer:
    """Search for the sequence that takes the fewest seconds more with at most `limit` live bytes.

    No sequence with at most two runs a unit takes fewer seconds more than the answer's least. The
    search begins with the solution of `start`.
    """
    if step.graph.node_count > MOST_NODES:
        raise ModelTooLargeError(
            f"the step has {step.graph.node_count} nodes, and {MOST_NODES} are the most"
        )
    from ortools.sat.python import cp_model

    model = _Model(cp_model, step, limit, budget)
    if start is not None:
        model.hint(start)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = budget.threads
    solver.parameters.random_seed = budget.seed
    seconds = solver_seconds(budget)
    if np.isfinite(seconds):
        solver.parameters.max_time_in_seconds = seconds
    status, interrupted = run_interruptibly(
        lambda: solver.solve(model.model), solver.stop_search, GRACE_SECONDS
    )
    if status is None:
        raise KeyboardInterrupt
    if status == cp_model.INFEASIBLE:
        return LimitAnswer(
            None, "no sequence is within the limit", np.inf, CERTIFICATE, interrupted=interrupted
        )
    # Costs were rounded to the nearest whole number, each by at most a half.
    rounding = len(model.units) / 2
    least = max(0.0, solver.best_objective_bound - rounding) / COST_OF_STEP * step.seconds
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return LimitAnswer(None, TIME_IS_OVER, least, CERTIFICATE, interrupted=interrupted)
    sequence = model.sequence(solver)
    if status == cp_model.OPTIMAL:
        least = step.core.cost(sequence, limit)[0]
    return LimitAnswer(sequence, "", least, CERTIFICATE, interrupted=interrupted)


@dataclass
class _Copy:
    """One copy of a tensor: the place that makes it, and one past the last that reads it."""

    made: Any
    end: Any


@dataclass
class _Model:
    cp_model: Any
    step: RepeatableStep
    limit: int
    budget: Budget
    model: Any = field(init=False)
    # Of each unit that may run again: whether it does, and its first place.
    units: dict[int, tuple[Any, Any]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        step, graph = self.step, self.step.graph
        self.model = self.cp_model.CpModel()
        self._nodes = step.nodes_of_unit
        again = np.flatnonzero(step.is_repeatable).tolist()
        self._room = sum(len(self._nodes[unit]) for unit in again)
        self._horizon = graph.node_count * (self._room + 1)
        # Places of the second run of each node, and of its first run.
        self._second: dict[int, Any] = {}
        intervals = [self.model.new_fixed_size_interval_var(self._place(node), 1, f"node {node}")
                     for node in range(graph.node_count)]  # fmt: skip
        for unit in again:
            runs = self.model.new_bool_var(f"unit {unit} again")
            nodes = self._nodes[unit].tolist()
            earliest = self._place(nodes[-1]) + 1
            start = self.model.new_int_var(earliest, max(earliest, self._horizon), f"start {unit}")
            self.units[unit] = runs, start
            for offset, node in enumerate(nodes):
                self._second[node] = start + offset
            intervals.append(
                self.model.new_optional_fixed_size_interval_var(
                    start, len(nodes), runs, f"unit {unit}"
                )
            )
        self.model.add_no_overlap(intervals)
        self._add_copies()
        self.model.minimize(
            sum(round(step.share(step.unit_seconds[unit]) * COST_OF_STEP) * runs
                for unit, (runs, _) in self.units.items())
        )  # fmt: skip

    def hint(self, choice: Choice) -> None:
        """Begin with the sequence in which the chosen units run again as late as possible."""
        sequence = self.step.late_sequence(choice)
        seen: set[int] = set()
        waiting: list[int] = []
        place_of: dict[int, int] = {}
        for node in sequence.tolist():
            if node in seen:
                waiting.append(node)
                continue
            seen.add(node)
            for index, second in enumerate(waiting):
                place_of[second] = self._place(node) - len(waiting) + index
            waiting = []
        for unit, (runs, start) in self.units.items():
            first = int(self._nodes[unit][0])
            self.model.add_hint(runs, int(first in place_of))
            if first in place_of:
                self.model.add_hint(start, place_of[first])

    def sequence(self, solver: Any) -> Sequence32:
        """Return the nodes in the order of the solution."""
        places = [(self._place(node), node) for node in range(self.step.graph.node_count)]
        for unit, (runs, start) in self.units.items():
            if solver.value(runs):
                first = solver.value(start)
                places += [(first + i, node) for i, node in enumerate(self._nodes[unit].tolist())]
        return np.array([node for _, node in sorted(places)], dtype=np.int32)

    def _place(self, node: int) -> int:
        """Return the place of the first run of a node, behind the room in front of it."""
        return node * (self._room + 1) + self._room

    def _add_copies(self) -> None:
        step, graph = self.step, self.step.graph
        intervals, sizes = [], []
        for tensor, size in enumerate(step.problem.size.tolist()):
            require_time(self.budget)
            if not size:
                continue
            maker = int(graph.producer[tensor])
            unit = int(step.unit_of_node[maker])
            first = self._copy(self._place(maker), f"first {tensor}")
            second, runs = None, None
            intervals.append(self._interval(first, None, f"first {tensor}"))
            sizes.append(size)
            if unit in self.units:
                runs, _ = self.units[unit]
                second = self._copy(self._second[maker], f"second {tensor}")
                intervals.append(self._interval(second, runs, f"second {tensor}"))
                sizes.append(size)
            for reader in graph.consumers_of(tensor).tolist():
                self._read(reader, self._place(reader), None, first, second, runs)
                reader_unit = int(step.unit_of_node[reader])
                if reader_unit == unit and second is not None:
                    # The second runs of one unit read each other's second copies.
                    self.model.add(second.end >= self._second[reader] + 1)
                elif reader_unit in self.units:
                    reader_runs, _ = self.units[reader_unit]
                    self._read(reader, self._second[reader], reader_runs, first, second, runs)
        self.model.add_cumulative(intervals, sizes, self.limit)

    def _copy(self, made: Any, name: str) -> _Copy:
        end = self.model.new_int_var(0, self._horizon + self._room + 1, f"end of {name}")
        self.model.add(end >= made + 1)
        return _Copy(made, end)

    def _interval(self, copy: _Copy, runs: Any, name: str) -> Any:
        length = self.model.new_int_var(1, self._horizon + self._room + 1, f"length of {name}")
        if runs is None:
            return self.model.new_interval_var(copy.made, length, copy.end, name)
        return self.model.new_optional_interval_var(copy.made, length, copy.end, runs, name)

    def _read(
        self, reader: int, place: Any, reader_runs: Any, first: _Copy, second: _Copy | None,
        runs: Any,
    ) -> None:  # fmt: skip
        """Let a run read the latest copy that is made before it."""
        given = [] if reader_runs is None else [reader_runs]
        if second is None:
            self.model.add(first.end >= place + 1).only_enforce_if(given)
            return
        reads_second = self.model.new_bool_var(f"{reader} reads the second copy")
        self.model.add_implication(reads_second, runs)
        late = [*given, reads_second]
        self.model.add(second.made < place).only_enforce_if(late)
        self.model.add(second.end >= place + 1).only_enforce_if(late)
        early = [*given, reads_second.negated()]
        self.model.add(first.end >= place + 1).only_enforce_if(early)
        self.model.add(second.made > place).only_enforce_if([*early, runs])
