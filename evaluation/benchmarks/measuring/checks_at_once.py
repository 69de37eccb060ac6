"""The checks of a training study side by side: only their bits count, not their time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace

from gpu_runtime.training.run_specification import JUDGED, Purpose, RunSpecification
from gpu_runtime.training.worker_result import WorkerResult


class ChecksAtOnce:
    """Runs what it is asked for; the first check begins those of all allocators."""

    def __init__(self, run: Callable[[RunSpecification], WorkerResult]) -> None:
        self._run = run
        self._begun: dict[str, Future[WorkerResult]] = {}

    def __call__(self, specification: RunSpecification) -> WorkerResult:
        """Run it, or wait for the run that began with the first check."""
        if specification.purpose is not Purpose.CHECK:
            return self._run(specification)
        if specification.to_json() not in self._begun:
            specifications = [replace(specification, allocator=allocator) for allocator in JUDGED]
            self._begun = {its.to_json(): self._begin(its) for its in specifications}
        return self._begun[specification.to_json()].result()

    def _begin(self, specification: RunSpecification) -> Future[WorkerResult]:
        future: Future[WorkerResult] = Future()

        def work() -> None:
            try:
                future.set_result(self._run(specification))
            except BaseException as error:
                future.set_exception(error)

        # Not of a pool, which Ctrl-C would have to wait for: workers end with their parent.
        threading.Thread(target=work, name=specification.label, daemon=True).start()
        return future
