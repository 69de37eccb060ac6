"""STWeaver beneath a running program: it profiles two iterations, plans, and follows the modules.

Note: a profile of the run itself
---------------------------------
Rationale. The paper profiles a run of its own, then starts again. A program should also profit
without a second start, and without a GPU for the first one.

Approach. A trace of the program, made without a GPU, gives the profile before the first request.
Without one the caching allocator serves the first two iterations, and each request is written
down with its visit. When the third iteration begins, the second one becomes the profile. Then the
idle memory of the caching allocator goes back, which waits for the device once, and the pool is
reserved, unless the pool beside the rest would be more than is reserved.

Limits. Memory that lasts, such as weights, is there before a plan of the run itself. It stays in
the caching allocator's segments, which keep free bytes beside it. The peak of reserved bytes
includes the profiled iterations until the peaks are reset. The program waits while it is planned. A
free counts as complete when it is asked for, though another stream may still use the block.
"""

from __future__ import annotations

import time
import warnings
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from gpu_runtime._core import RecordedAction, ServingOnlineAllocator, Stweaver
from gpu_runtime.replaying.causal_profile import profile_iteration, visit_number
from gpu_runtime.replaying.stweaver_replay import NOTHING_STATIC, plan_static
from planners.errors import InvalidPlanError
from planners.files.formats import read_requests
from planners.model.request_sequence import NOWHERE, RequestAction, RequestSequence
from planners.text.byte_units import exact_bytes

# The second iteration is profiled, and ends where the third one begins.
PLANNING_ITERATION = 3
OUTSIDE = ""
NO_VISIT = -1


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
        self._iteration = 0
        self._chunks: list[tuple[Any, ...]] = []
        # The visits of recorded rows, by number.
        self._recorded: dict[tuple[int, str], int] = {}
        self._names: dict[str, int] | None = None
        self._known: dict[tuple[int, str], int] = {}
        # Whether there is a plan, and if not, why.
        self.note = "" if static else "caching alone, as static=False asks for"
        self._is_recording = static and trace is None
        if static and trace is not None:
            self._adopt(read_requests(trace), lasting=True)
        elif static:
            self.note = "profiles the first two iterations"
            allocator.record_beneath(serving, True)
        self.enter(NOWHERE, OUTSIDE)

    @property
    def pool(self) -> range:
        """The addresses of the static pool; empty while there is none."""
        begin = self._allocator.pool
        return range(begin, begin + self._allocator.pool_bytes if begin else 0)

    def begin_iteration(self) -> None:
        """Begin the next iteration; the third one plans if the run itself is profiled."""
        self._iteration += 1
        if self._is_recording:
            self._is_recording = self._iteration < PLANNING_ITERATION
            self._chunks.append(self._allocator.record_beneath(self._serving, self._is_recording))
            if not self._is_recording:
                try:
                    self._adopt(self._recorded_requests(), lasting=False)
                except InvalidPlanError as error:
                    self.note = f"planned nothing: {error}"
        self._serving.begin_iteration()

    def enter(self, phase: int, module: str) -> None:
        """Say where the program is from now on.

        Parameters
        ----------
        phase
            The number of the phase within its iteration; -1 before the first iteration.
        module
            The innermost module, by its path of names; empty outside of modules.
        """
        if self._names is None:
            number = self._recorded.setdefault((phase, module), len(self._recorded))
        else:
            number = self._known.get((phase, module), NO_VISIT)
            if number == NO_VISIT:
                number = self._known[phase, module] = self._visit(phase, module)
        self._serving.enter(number)

    def _visit(self, phase: int, module: str) -> int:
        """Return the number of a visit, or of the nearest module around one that is not known."""
        if not self._names:
            # Each phase is one visit.
            module, self._names = OUTSIDE, {}
        while module not in self._names and "." in module:
            module = module.rpartition(".")[0]
        index = NOWHERE if module == OUTSIDE else self._names.get(module)
        return NO_VISIT if index is None else visit_number(phase, index, len(self._names))

    def _adopt(self, requests: RequestSequence, *, lasting: bool) -> None:
        begun = time.perf_counter()
        profile = profile_iteration(requests, lasting=lasting)
        self._names = {name: index for index, name in enumerate(requests.module_names)}
        self._chunks.clear()
        if profile is None:
            self.note = NOTHING_STATIC
            return
        plan = plan_static(profile.static, self._planner, self._time_limit)
        planned = profile.planned(plan, reuse=self._reuse)
        seconds = time.perf_counter() - begun
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
        self.note = f"a static pool of {exact_bytes(plan.peak)} bytes, planned in {seconds:.2f} s"

    def _recorded_requests(self) -> RequestSequence:
        """Return the requests that were written down; blocks from before are left out."""
        columns = [np.concatenate(column).tolist() for column in zip(*self._chunks, strict=True)]
        visits = list(self._recorded)
        names = {name: None for _, module in visits for name in _with_names_around(module)}
        module_of = {OUTSIDE: NOWHERE, **{name: index for index, name in enumerate(names)}}
        live: dict[int, int] = {}
        numbers = count()
        rows: list[tuple[int, int, int, int]] = []
        sizes, streams = [], []
        begins = np.cumsum([len(chunk[0]) for chunk in self._chunks])[:-1].tolist()
        rows_before: list[int] = []
        for row, (action, address, size, stream, visit) in enumerate(zip(*columns, strict=True)):
            while len(rows_before) < len(begins) and begins[len(rows_before)] <= row:
                rows_before.append(len(rows))
            phase, module = visits[visit]
            if action == RecordedAction.ALLOCATE:
                live[address] = next(numbers)
                sizes.append(size)
                streams.append(stream)
                made = RequestAction.ALLOCATE, live[address]
            elif address in live:
                made = RequestAction.FREE_COMPLETED, live.pop(address)
            else:
                continue
            rows.append((*made, phase, module_of[module]))
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
            module_names=tuple(names),
        )


def _with_names_around(module: str) -> list[str]:
    parts = module.split(".") if module else []
    return [".".join(parts[: length + 1]) for length in range(len(parts))]
