"""Training steps whose memory is planned: the five lines in a user's script.

>>> memory = PlannedMemory(planner="auto")  # doctest: +SKIP
>>> memory.install()  # doctest: +SKIP
>>> for batch in data:  # doctest: +SKIP
...     with memory.step():
...         train(batch)
"""

from __future__ import annotations

import atexit
import math
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Literal

from gapless_siblings import import_ours
from gpu_runtime._core import BETWEEN, CountingMemory, CudaMemory, PlannedAllocator
from gpu_runtime.allocator.call_counts import DeviceMeter
from gpu_runtime.allocator.graph_report import graph_report
from gpu_runtime.allocator.memory_pause import Keep, MemoryPause
from gpu_runtime.allocator.memory_report import (
    KindReport,
    MemoryReport,
    count_kinds,
    mismatch_record,
)
from gpu_runtime.allocator.mismatch_places import MismatchPlaces
from gpu_runtime.allocator.overwrite_kernels import load_checks
from gpu_runtime.allocator.overwrite_record import OverwriteRecord, require_none, take_overwrites
from gpu_runtime.allocator.pytorch.decorated_allocator import serve_pytorch
from gpu_runtime.allocator.step_planner import Planning, StepPlanner
from planners.errors import DeviceError, GaplessError
from planners.model.budget import Budget
from planners.model.problem import Problem
from planners.registry import choose_one

ARENAS = ("vmm", "cudaMalloc")
# The share of a program's time that calls for moves may take.
MOVES = 0.005


class PlannedMemory:
    """Serves PyTorch's CUDA allocations, those of training steps at planned addresses.

    A step that made the same requests and frees as an earlier one, from end to end, is planned.
    From then on request k of such a step goes to offset k of an arena. All other requests go to a
    heap, which reserves no more than the better of PyTorch's two allocators would for the same
    requests, and moves idle memory to where it is needed.

    Parameters
    ----------
    planner
        ``NAME[:KEY=VALUE...]`` of a registered planner.
    time_limit
        Seconds that it may take for a plan, beside the training.
    device
        Number of the CUDA device.
    arena
        ``"vmm"``: pages that are mapped as needed. ``"cudaMalloc"``: one plain allocation, for
        libraries that refuse such pages.
    moves
        Share of the program's time that device calls may take to reserve less than PyTorch would;
        0 for none, None for as many as reserve the least. Calls that keep reserved bytes from
        exceeding PyTorch's, or the device's memory, are made in any case.
    check
        Whether each freed block is stamped, and its stamp compared before the bytes are handed out
        again, which finds writes to freed memory. Steps take longer, and each waits for the device
        at its end.
    strict
        Whether an unknown version of PyTorch is an error. By default, training goes on under
        PyTorch's own allocator, with one warning. With `check` it is an error in any case.

    Raises
    ------
    UnknownPlannerError
        No planner has this name, or it has no such parameter.
    GaplessError
        A number is out of range, or the arena is neither.
    """

    def __init__(
        self,
        planner: str = "auto",
        *,
        time_limit: float = 10.0,
        device: int = 0,
        arena: Literal["vmm", "cudaMalloc"] = "vmm",
        moves: float | None = MOVES,
        check: bool = False,
        strict: bool = False,
        _planning: Planning = "beside",
    ) -> None:
        if arena not in ARENAS:
            raise GaplessError(f"arena: 'vmm' or 'cudaMalloc', found {arena!r}")
        self._chosen = choose_one(planner)
        self._budget = Budget(time_limit_seconds=time_limit)
        self._device = device
        self._arena = arena
        self._share_of_moves = _share_of_moves(moves)
        self._check = check
        self._strict = strict or check
        self._is_installed = False
        # The reason why PyTorch's own allocator serves; empty if it does not.
        self._unserved = ""
        self._planning: Planning = _planning
        self._planner: StepPlanner | None = None
        self._allocator: PlannedAllocator | None = None
        self._meter: DeviceMeter | None = None
        self._pause: MemoryPause | None = None
        self._places = MismatchPlaces()
        self._overwrites: list[OverwriteRecord] = []
        # Whether captures that begin now are exclusive; None if the user never said so.
        self._is_exclusive: bool | None = None
        # PyTorch's pool of the work between replays.
        self._eager_pool: Any = None
        # By label: the names that the user gave to kinds, and ours.
        self._names: dict[int, str] = {BETWEEN: "between steps", 0: "step"}

    def install(self) -> None:
        """Serve all CUDA allocations of PyTorch from now on, for the rest of the process.

        Raises
        ------
        MissingDependencyError
            PyTorch, a compiler or CUDA's headers are not installed.
        DeviceError
            There is no driver or device, planned memory is installed on this device, or, with
            `strict`, this version of PyTorch is unknown.
        """
        self._refuse_twice()
        counted: list[CountingMemory] = []

        def make(memory: CudaMemory) -> PlannedAllocator:
            if self._check:
                load_checks(memory)
            counted.append(CountingMemory(memory, is_timed=True))
            return PlannedAllocator(
                counted[-1], self._arena == "cudaMalloc", self._check, self._share_of_moves
            )

        stand_by = None if self._strict else self._stand_by
        allocator = serve_pytorch(self._device, make, on_unknown=stand_by)
        # Tensors are freed after the interpreter is gone.
        atexit.register(allocator.on_mismatch, None)
        self.attach(allocator, counted[-1])
        self._pause = MemoryPause(allocator, self._meter, self._device)
        self._is_installed = True

    def _stand_by(self, reason: str) -> None:
        self._unserved = reason
        warnings.warn(
            f"training goes on under PyTorch's own allocator: {reason}",
            RuntimeWarning,
            stacklevel=4,
        )

    def attach(self, allocator: PlannedAllocator, memory: CountingMemory | None = None) -> None:
        """Plan the steps of an allocator that another program than PyTorch calls.

        Parameters
        ----------
        allocator
            An allocator over any memory; :meth:`install` makes one that PyTorch calls.
        memory
            The memory of the allocator, if its device calls are to be reported.

        Raises
        ------
        DeviceError
            An allocator is attached already, or `check` is set and the allocator does not check.
        """
        self._refuse_twice()
        if self._check and not allocator.is_checked:
            raise DeviceError("check: the allocator that is attached was made without is_checked")
        planner = StepPlanner(allocator, self._chosen, self._budget, self._planning)
        self._planner, self._allocator = planner, allocator
        self._meter = None if memory is None else DeviceMeter(allocator, memory)
        self._pause = MemoryPause(allocator, self._meter, None)
        allocator.on_mismatch(self._places.note)

    @property
    def device(self) -> int:
        """Number of the CUDA device."""
        return self._device

    @property
    def installed(self) -> bool:
        """Return True if an allocator is installed or attached."""
        return self._planner is not None

    @contextmanager
    def step(self, kind: str | None = None) -> Iterator[None]:
        """Return the context of one training step.

        Parameters
        ----------
        kind
            Name of steps that are unlike the others, such as ``"eval"``. Without a name, such steps
            are told apart by their requests.

        Yields
        ------
        None
            A step that ends with an error is not recorded.

        Raises
        ------
        DeviceError
            Nothing is installed, or a step begins within a step.
        """
        self.begin_step(kind)
        completed = False
        try:
            yield
            completed = True
        finally:
            self.end_step(completed=completed)

    def begin_step(self, kind: str | None = None) -> None:
        """Begin a step if :meth:`step` cannot be used, as in a callback.

        Raises
        ------
        DeviceError
            Nothing is installed, or a step begins within a step.
        """
        self._installed()[0].begin_step(self._label_of(kind))

    def end_step(self, *, completed: bool = True) -> None:
        """End a step; one that was not completed is not recorded.

        Raises
        ------
        DeviceError
            Nothing is installed, or no step has begun; with `check`: memory was written to while
            it was free.
        """
        planner, allocator = self._installed()
        planner.end_step(completed=completed)
        if self._meter is not None:
            self._meter.end_step()
        if not self._check:
            return
        try:
            found = take_overwrites(allocator)
        except OSError as error:
            if completed:
                raise DeviceError(f"check: {error}") from None
            # The error that ended the step says more.
            return
        self._overwrites += found
        require_none(found)

    def tagged(self, tag: str) -> AbstractContextManager[None]:
        """Return a context in which requests of this thread get a tag, for :meth:`pause`.

        Tagged memory is never planned. Requests get no tag while the tag is paused.

        Raises
        ------
        DeviceError
            Nothing is installed.
        GaplessError
            The tag is empty.
        """
        return self._pausing().tagged(tag)

    def pause(self, tag: str | None = None, *, keep: Keep = "host") -> int:
        """Give the memory of a tag, or all, back to the device, and return its bytes.

        The call waits for the device. The addresses stay reserved. Until :meth:`resume`, an access
        to a paused tensor is an illegal access; with `check`, an operator that gets one raises
        ``DeviceError``.

        Parameters
        ----------
        keep
            ``"host"``: the contents are copied to pinned memory of the host, and restored.
            ``"nothing"``: they are lost.

        Raises
        ------
        DeviceError
            Nothing is installed, the memory is plain (``arena="cudaMalloc"``) or registered with
            NCCL, a graph is being captured, the host lacks memory, or the device refuses a call.
        GaplessError
            There is no such tag, or `keep` is neither.
        """
        return self._pausing().pause(tag, keep)

    def resume(self, tag: str | None = None) -> int:
        """Map paused memory again, at the same addresses, and return its bytes.

        Raises
        ------
        DeviceError
            Nothing is installed, the device lacks memory, or it refuses a call. Kept contents stay
            on the host, and the call can be made again.
        GaplessError
            There is no such tag.
        """
        return self._pausing().resume(tag)

    @contextmanager
    def graphs(self, *, exclusive: bool) -> Iterator[None]:
        """Let CUDA graphs share memory whose captures begin in this context.

        Parameters
        ----------
        exclusive
            Whether the program keeps PyTorch's rules for graphs in one pool: no two of these graphs
            replay at the same time, and what a capture has freed is not read after its replay. If
            not, PyTorch's allocator serves the captures, as it does outside of the context.

        Raises
        ------
        DeviceError
            Nothing is installed.
        """
        allocator = self._installed()[1]
        before, self._is_exclusive = self._is_exclusive, exclusive
        allocator.set_exclusive_graphs(exclusive)
        try:
            yield
        finally:
            self._is_exclusive = bool(before)
            allocator.set_exclusive_graphs(self._is_exclusive)

    @contextmanager
    def between_replays(self) -> Iterator[None]:
        """Let requests of this thread lie in the memory of exclusive graphs, which idles meanwhile.

        No exclusive graph replays in this context, and the streams of replays and of this work wait
        for each other, as for any memory that both use. What lives at the end is copied to memory
        of its own, so replays may follow. The host waits for the device only if there is something
        to copy or to unmap.

        Raises
        ------
        DeviceError
            Nothing is installed, or the device refuses a call.
        """
        allocator = self._installed()[1]
        if self._unserved or allocator.is_plain:
            yield
            return
        import torch

        if self._eager_pool is None:
            self._eager_pool = torch.cuda.MemPool()
        first, second = self._eager_pool.id
        allocator.lend(first << 32 | second)
        with torch.cuda.use_mem_pool(self._eager_pool, self._device):
            yield

    def wait_for_planning(self) -> None:
        """Wait for the plan that is being made; it is adopted at the end of the next step."""
        self._installed()[0].wait_for_planning()

    def reset_peaks(self) -> None:
        """Count from now: peaks become the bytes in use, and all other numbers become zero."""
        planner, allocator = self._installed()
        allocator.reset_peaks()
        planner.reset_counts()
        if self._meter is not None:
            self._meter.reset()
        self._places.clear()
        self._overwrites.clear()

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problem of the plan, with the requests of all kinds; empty without a plan."""
        planned = self._installed()[0].planned
        return () if planned is None else (planned.problem.problem,)

    def report(self) -> MemoryReport:
        """Return peaks and counts since the installation or the last reset.

        Returns
        -------
        MemoryReport
            ``print`` shows it as a table.
        """
        planner, allocator = self._installed()
        self._overwrites += take_overwrites(allocator, everywhere=True)
        planned = planner.planned
        figures = allocator.figures()
        plain = 'plain memory (arena="vmm" is shared)' if allocator.is_plain else ""
        graphs = graph_report(figures.graphs, self._unserved or plain)
        return MemoryReport(
            planner=self._chosen.label,
            status="unplanned" if self._unserved else planner.status,
            reason=self._unserved or planner.reason,
            plans=planner.plans,
            kinds=self._kind_reports(planner),
            steps=figures.steps,
            planned_steps=figures.planned_steps,
            requested_bytes=figures.requested_peak,
            allocated_bytes=figures.allocated_peak,
            reserved_bytes=figures.reserved_peak,
            reserved_now=figures.reserved_bytes,
            default_bytes=figures.default_peak,
            default_now=figures.default_bytes,
            expandable_bytes=figures.expandable_peak,
            expandable_now=figures.expandable_bytes,
            requests_above_pytorch=figures.requests_above_shadow,
            arena_bytes=planned.arena_bytes if planned else 0,
            lower_bound=planned.result.lower_bound if planned else 0,
            escaping_bytes=planned.problem.escaping_bytes if planned else 0,
            planned_requests=figures.planned_requests,
            escaping_requests=figures.escaping_requests,
            unexpected_requests=figures.unexpected_requests,
            mismatch_counts=count_kinds(allocator.mismatch_counts()),
            mismatches=tuple(
                mismatch_record(mismatch, self._places.of(mismatch))
                for mismatch in allocator.mismatches()
            ),
            overwrites=tuple(self._overwrites),
            device=None if self._meter is None else self._meter.in_all,
            last_step=None if self._meter is None else self._meter.last_step,
            pause=self._pausing().report(),
            graphs=None if self._is_exclusive is None else graphs,
        )

    def explain(self) -> Any:
        """Explain what is alive, what is stranded, and what PyTorch's allocators would hold.

        It is the moment of the last request that failed, if the program has requested nothing
        since, or else now. ``torch.cuda.memory._record_memory_history()`` tells kinds and places.

        Returns
        -------
        RunningExplanation
            ``print`` shows it as ``gapless explain`` does.

        Raises
        ------
        DeviceError
            Nothing is installed.
        """
        allocator = self._installed()[1]
        # The room that explains stands above this one.
        running = import_ours("gpu_runtime.explaining.running_program")
        if self._unserved:
            return running.explain_memory(self._device)
        return running.explain_planned(allocator, self._device if self._is_installed else None)

    def statistics(self) -> dict[str, float]:
        """Return the numbers of the device calls since the installation or the last reset.

        Returns
        -------
        dict of str to float
            ``steps``, ``plans``, and for ``all`` steps and the ``last`` one, as in
            ``"all.host_waits"``: ``host_waits``, ``moved_bytes``, ``seconds`` in device calls, and
            the number of ``calls`` of each kind, as in ``"last.calls.map"``.
        """
        planner, allocator = self._installed()
        found: dict[str, float] = {"steps": allocator.figures().steps, "plans": planner.plans}
        if self._meter is not None:
            for name, use in (("all", self._meter.in_all), ("last", self._meter.last_step)):
                found |= {f"{name}.{key}": number for key, number in use.numbers().items()}
        return found

    def _kind_reports(self, planner: StepPlanner) -> tuple[KindReport, ...]:
        planned = planner.planned
        problem = None if planned is None else planned.problem
        numbers = [] if problem is None else [kind.number for kind in problem.kinds]
        # The phases of a kind have equal peaks but for what lives on.
        peaks = {} if problem is None else dict(zip(numbers, problem.peaks, strict=True))
        return tuple(
            KindReport(
                name=self._names[kind.label],
                seen=kind.seen,
                requests=len(kind.requests),
                peak_bytes=peaks.get(kind.number, 0),
                planned_steps=planner.followed[kind.number],
            )
            for kind in planner.kinds
        )

    def _label_of(self, kind: str | None) -> int:
        if kind is None:
            return 0
        for label, name in self._names.items():
            if name == kind and label > 0:
                return label
        label = 1 + max(self._names)
        self._names[label] = kind
        return label

    def _refuse_twice(self) -> None:
        if self._planner is not None:
            raise DeviceError("planned memory is installed already; one installation is enough")

    def _pausing(self) -> MemoryPause:
        self._installed()
        assert self._pause is not None
        return self._pause

    def _installed(self) -> tuple[StepPlanner, PlannedAllocator]:
        if self._planner is None or self._allocator is None:
            raise DeviceError("planned memory is not installed; call install() first")
        return self._planner, self._allocator


def _share_of_moves(moves: float | None) -> float:
    if moves is None:
        return math.inf
    is_number = isinstance(moves, (int, float)) and not isinstance(moves, bool)
    if not is_number or not 0 <= moves <= 1:
        raise GaplessError(f"moves: a share from 0 to 1, or None for no limit, found {moves!r}")
    return float(moves)
