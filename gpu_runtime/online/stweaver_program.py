"""STWeaver below a running program: it profiles two iterations, plans, and follows the modules.

Note: a profile of the run itself
---------------------------------
Rationale. The paper profiles a run of its own, then starts again. A program should also profit
without a second start, and without a GPU for the first one.

Approach. A trace of the program, made without a GPU, gives the profile before the first request.
Without one caching allocators serve the first two iterations, and each request is written down
with its visit. When the third iteration begins, the second one becomes the profile. Then the idle
memory of the caching allocators goes back, which waits for the device once, and the pool is
reserved, unless the pool beside the rest would be more than is reserved.

Memory that lasts, such as weights, is there before a plan of the run itself, and stays in its
segments. Weights lie close together, but an optimizer makes its state in its first update, when
the caching allocator has idle blocks in every segment of the iteration. State in each of them would
keep them all. So updates before the plan have a caching allocator of their own.

Limits. The profiled iterations reserve more than caching does, by up to the bytes of the state; if
the device has no more, idle memory goes back first. Their peak counts until a reset of the peaks.
The program waits while it is planned. A free counts as complete when it is asked for, though
another stream may still use the block. What else lasts and begins within the profiled iterations,
such as gradients that are zeroed and not dropped, stays among the bytes of the iteration.
"""

from __future__ import annotations

import time
import warnings
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from gpu_runtime._core import ModuleVisits, RecordedAction, ServingOnlineAllocator, Stweaver
from gpu_runtime.replaying.causal_profile import profile_iteration
from gpu_runtime.replaying.stweaver_replay import NOTHING_STATIC, plan_static
from planners.errors import InvalidPlanError
from planners.files.formats import read_requests
from planners.model.request_sequence import NOWHERE, RequestAction, RequestSequence
from planners.text.byte_units import exact_bytes

# The second iteration is profiled, and ends where the third one begins.
PLANNING_ITERATION = 3
# Visits that are recorded have numbers of a phase and a module below this.
MOST_MODULES = 1 << 30


class StweaverProgram:
    """Tells STWeaver the iterations and module visits of the program above it.

    Parameters
    ----------
    allocator, serving
        The online allocator, and what serves its blocks.
    planner, time_limit, reuse, static
        As for a replay by ``stweaver``.
    trace
        A trace of the program to profile; None profiles the run itself.
    """

    def __init__(
        self,
        allocator: Stweaver,
        serving: ServingOnlineAllocator,
        *,
        planner: str = "homosize",
        time_limit: float = 3.0,
        reuse: str = "layers",
        static: bool = True,
        trace: str | Path | None = None,
    ) -> None:
        self._allocator, self._serving = allocator, serving
        self._planner, self._time_limit, self._reuse = planner, time_limit, reuse == "layers"
        #: Where the program is; its hooks tell this directly.
        self.visits = ModuleVisits(serving)
        self._iteration = 0
        self._chunks: list[tuple[Any, ...]] = []
        # Modules of the program by name; the modules around one have smaller numbers.
        self._numbers: dict[str, int] = {}
        # The columns of the planned modules by name; None while there is no profile.
        self._planned: dict[str, int] | None = None
        self._told_apart: frozenset[str] = frozenset()
        self._begun = time.perf_counter()
        # Whether there is a plan, and if not, why.
        self.note = "" if static else "caching alone, as static=False asks for"
        self._is_recording = static and trace is None
        if static and trace is not None:
            self._adopt(read_requests(trace), lasting=True)
        elif static:
            self.note = "profiles the first two iterations"
            allocator.record_below(serving, True)
            self.visits.renumber(MOST_MODULES, [])
        self.visits.enter(NOWHERE, NOWHERE)

    @property
    def pool(self) -> range:
        """The addresses of the static pool; empty while there is none."""
        begin = self._allocator.pool
        return range(begin, begin + self._allocator.pool_bytes if begin else 0)

    def begin_iteration(self) -> None:
        """Begin the next iteration; the third one plans if the run itself is profiled."""
        self._iteration += 1
        if self._iteration == 1:
            self._begun = time.perf_counter()
        if self._is_recording:
            self._is_recording = self._iteration < PLANNING_ITERATION
            self._chunks.append(self._allocator.record_below(self._serving, self._is_recording))
            if not self._is_recording:
                self._allocator.keep_apart_below(self._serving, False)
                try:
                    self._adopt(self._recorded_requests(), lasting=False)
                except InvalidPlanError as error:
                    self.note = f"planned nothing: {error}"
        self._serving.begin_iteration()

    def begin_phase(self, phase: int, *, makes_state: bool) -> None:
        """Begin a phase, in which an optimizer may make its state: memory that lasts.

        The number of the phase within its iteration is -1 before the first iteration.
        """
        self.visits.begin_phase(phase)
        if self._is_recording:
            self._allocator.keep_apart_below(self._serving, makes_state)

    def module(self, name: str) -> int:
        """Return the number of a module, by its path of names, for :attr:`visits`."""
        if name not in self._numbers:
            outer = name.rpartition(".")[0]
            around = self.module(outer) if outer else NOWHERE
            number = len(self._numbers)
            self.visits.add(around, self._column(name, number))
            self._numbers[name] = number
        return self._numbers[name]

    @property
    def told_apart(self) -> frozenset[int]:
        """The numbers of the modules that the plan tells apart."""
        names = self._told_apart
        return frozenset(number for name, number in self._numbers.items() if name in names)

    @property
    def listens(self) -> bool:
        """Whether the program has to tell where it is: for a profile, or for a plan."""
        return self._is_recording or self._planned is not None

    def _column(self, name: str, number: int) -> int:
        """Return the column of a module, or of the nearest one around it that is planned."""
        if self._planned is None:
            return number + 1
        while name not in self._planned and "." in name:
            name = name.rpartition(".")[0]
        return self._planned.get(name, 0)

    def _adopt(self, requests: RequestSequence, *, lasting: bool) -> None:
        profile = profile_iteration(requests, lasting=lasting)
        self._chunks.clear()
        profiled = time.perf_counter() - self._begun
        if profile is None:
            self.note = NOTHING_STATIC
            return
        plan = plan_static(profile.static, self._planner, self._time_limit)
        planned = profile.planned(plan, reuse=self._reuse)
        seconds = time.perf_counter() - self._begun - profiled
        try:
            is_worth_it = self._allocator.adopt_for_less(self._serving, planned)
        except (MemoryError, OSError) as error:
            self.note = f"no pool of {exact_bytes(plan.peak)} bytes: {error}"
            warnings.warn(f"stweaver: {self.note}", RuntimeWarning, stacklevel=2)
            return
        if not is_worth_it:
            self.note = (
                f"caching alone: a pool of {exact_bytes(plan.peak)} bytes beside lasting memory "
                f"would reserve more than caching does; give a trace, whose plan has that too"
            )
            return
        names = requests.module_names
        self._planned = dict(zip(names, (profile.counts_as + 1).tolist(), strict=False))
        self._told_apart = frozenset(names[module] for module in profile.modules if names)
        columns = [self._column(name, number) for name, number in self._numbers.items()]
        self.visits.renumber(len(profile.counts_as) + 1, columns)
        self.note = (
            f"a static pool of {exact_bytes(plan.peak)} bytes, profiled in {profiled:.2f} s and "
            f"planned in {seconds:.2f} s"
        )

    def _recorded_requests(self) -> RequestSequence:
        """Return the requests that were written down; blocks from before are left out."""
        columns = [np.concatenate(column).tolist() for column in zip(*self._chunks, strict=True)]
        live: dict[int, int] = {}
        numbers = count()
        rows: list[tuple[int, int, int, int]] = []
        sizes, streams = [], []
        begins = np.cumsum([len(chunk[0]) for chunk in self._chunks])[:-1].tolist()
        rows_before: list[int] = []
        for row, (action, address, size, stream, visit) in enumerate(zip(*columns, strict=True)):
            while len(rows_before) < len(begins) and begins[len(rows_before)] <= row:
                rows_before.append(len(rows))
            if action == RecordedAction.ALLOCATE:
                live[address] = next(numbers)
                sizes.append(size)
                streams.append(stream)
                made = RequestAction.ALLOCATE, live[address]
            elif address in live:
                made = RequestAction.FREE_COMPLETED, live.pop(address)
            else:
                continue
            phase, column = divmod(visit, MOST_MODULES)
            rows.append((*made, phase - 1, column - 1))
        rows_before += [len(rows)] * (len(begins) - len(rows_before))
        action, request, phase, module = np.array(rows, dtype=np.int64).reshape(-1, 4).T
        return RequestSequence(
            "the run itself",
            action=action,
            request=request,
            event=np.arange(len(rows)),
            size=np.array(sizes, dtype=np.int64),
            stream=np.array(streams, dtype=np.int64),
            iteration_rows=np.array(rows_before, dtype=np.int64),
            phase=phase,
            module=module,
            module_names=tuple(self._numbers),
        )
