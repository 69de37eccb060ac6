"""The checks of a training study side by side: only their bits count, not their time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace

from gpu_runtime.training.run_specification import Allocator, Purpose, RunSpecification
from gpu_runtime.training.worker_result import WorkerResult


class ChecksAtOnce:
    """Does jobs; the first check that is asked for begins those of all allocators."""

    def __init__(self, run: Callable[[RunSpecification], WorkerResult]) -> None:
        self._run = run
        self._begun: dict[str, Future[WorkerResult]] = {}

    def __call__(self, job: RunSpecification) -> WorkerResult:
        """Do a job."""
        if job.purpose is not Purpose.CHECK:
            return self._run(job)
        if job.to_json() not in self._begun:
            jobs = [replace(job, allocator=allocator) for allocator in Allocator]
            self._begun = {its.to_json(): self._begin(its) for its in jobs}
        return self._begun[job.to_json()].result()

    def _begin(self, job: RunSpecification) -> Future[WorkerResult]:
        future: Future[WorkerResult] = Future()

        def work() -> None:
            try:
                future.set_result(self._run(job))
            except BaseException as error:
                future.set_exception(error)

        # Not of a pool, which Ctrl-C would have to wait for: children end with their parent.
        threading.Thread(target=work, name=job.label, daemon=True).start()
        return future
