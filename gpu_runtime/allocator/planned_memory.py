"""Training steps whose memory is planned: the five lines in a user's script.

>>> memory = PlannedMemory(planner="auto")  # doctest: +SKIP
>>> memory.install()  # doctest: +SKIP
>>> for batch in data:  # doctest: +SKIP
...     with memory.step():
...         train(batch)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gpu_runtime._core import PlannedAllocator
from gpu_runtime.allocator.memory_report import MemoryReport, count_kinds, mismatch_record
from gpu_runtime.allocator.mismatch_places import MismatchPlaces
from gpu_runtime.allocator.pytorch_allocator import pytorch_out_of_memory, serve_pytorch
from gpu_runtime.allocator.step_planner import StepPlanner
from planners.errors import DeviceError, GaplessError
from planners.model.budget import Budget
from planners.model.problem import Problem
from planners.registry import choose_one


class PlannedMemory:
    """Serves PyTorch's CUDA allocations, those of training steps at planned addresses.

    The first steps are profiled; as soon as two in a row made the same requests they are planned,
    and from then on request k of a step goes to offset k of an arena. What does not match, and what
    outlives its step, goes to a heap.

    Parameters
    ----------
    planner
        ``NAME[:KEY=VALUE...]`` of a registered planner.
    time_limit
        Seconds that it may take, for each stream.
    device
        Number of the CUDA device.
    max_profiled_steps
        After which the last but one is planned, also where no two were alike; at least 2.
    patience
        Steps in a row, most of whose requests were not as planned, after which planning begins
        again; at least 1, doubled each time. None: never.

    Raises
    ------
    UnknownPlannerError
        No planner has this name, or it has no such parameter.
    GaplessError
        A number is out of range.
    """

    def __init__(
        self,
        planner: str = "auto",
        *,
        time_limit: float = 10.0,
        device: int = 0,
        max_profiled_steps: int = 8,
        patience: int | None = 3,
    ) -> None:
        if max_profiled_steps < 2:
            raise GaplessError(
                f"profiled steps: at least 2, to see whether they are alike, "
                f"found {max_profiled_steps}"
            )
        if patience is not None and patience < 1:
            raise GaplessError(f"patience: at least 1 step, or None for no end, found {patience}")
        self._chosen = choose_one(planner)
        self._budget = Budget(time_limit_seconds=time_limit)
        self._device = device
        self._max_profiled_steps = max_profiled_steps
        self._patience = patience
        self._planner: StepPlanner | None = None
        self._places = MismatchPlaces()

    def install(self) -> None:
        """Serve all CUDA allocations of PyTorch from now on, for the rest of the process.

        Raises
        ------
        MissingDependencyError
            PyTorch is not installed.
        DeviceError
            There is no driver or device, or PyTorch has used CUDA already.
        """
        self._refuse_twice()
        self.attach(serve_pytorch(self._device))

    def attach(self, allocator: PlannedAllocator) -> None:
        """Plan the steps of an allocator that is asked by somebody else than PyTorch.

        Parameters
        ----------
        allocator
            Over any memory; :meth:`install` makes one that PyTorch asks.

        Raises
        ------
        DeviceError
            It plans the steps of an allocator already.
        """
        self._refuse_twice()
        self._planner = StepPlanner(
            allocator, self._chosen, self._budget, self._max_profiled_steps, self._patience
        )
        allocator.on_mismatch(self._places.note)

    @contextmanager
    def step(self) -> Iterator[None]:
        """Within this context is one training step.

        Yields
        ------
        None
            Where the step ends with an error its requests are not planned.

        Raises
        ------
        DeviceError
            Nothing is installed, or a step begins within a step.
        """
        planner = self._installed()
        planner.begin_step()
        completed = False
        try:
            with pytorch_out_of_memory():
                yield
            completed = True
        finally:
            planner.end_step(completed=completed)

    def reset_peaks(self) -> None:
        """Count from now: peaks are those of what is in use, everything else is zero."""
        self._installed().allocator.reset_peaks()
        self._places.clear()

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What was planned, a problem for each stream; empty before the plan is made."""
        planning = self._installed().planning
        return () if planning is None else tuple(stream.problem for stream in planning.problems)

    def report(self) -> MemoryReport:
        """Return what happened since the installation or the last reset.

        Returns
        -------
        MemoryReport
            ``print`` shows it as a table.
        """
        planner = self._installed()
        allocator, planning = planner.allocator, planner.planning
        figures = allocator.figures()
        arena = planning.arena_bytes if planning else 0
        escaping = planning.escaping_bytes if planning else 0
        return MemoryReport(
            planner=self._chosen.label,
            status=planner.status,
            reason=planner.reason,
            plans=planner.plans,
            steps=figures.steps,
            planned_steps=figures.planned_steps,
            requested_bytes=figures.requested_peak,
            allocated_bytes=figures.allocated_peak,
            reserved_bytes=figures.reserved_peak,
            planned_bytes=arena + escaping,
            lower_bound=planning.lower_bound if planning else 0,
            arena_bytes=arena,
            escaping_bytes=escaping,
            planned_requests=figures.planned_requests,
            escaping_requests=figures.escaping_requests,
            fallback_requests=figures.fallback_requests,
            fallback_bytes=figures.fallback_bytes,
            missing_requests=figures.missing_requests,
            mismatch_counts=count_kinds(allocator.mismatch_counts()),
            mismatches=tuple(
                mismatch_record(mismatch, self._places.of(mismatch))
                for mismatch in allocator.mismatches()
            ),
        )

    def _refuse_twice(self) -> None:
        if self._planner is not None:
            raise DeviceError("planned memory is installed already; one installation is enough")

    def _installed(self) -> StepPlanner:
        if self._planner is None:
            raise DeviceError("planned memory is not installed; call install() first")
        return self._planner
