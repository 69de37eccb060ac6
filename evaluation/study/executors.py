"""Who carries out the runs: processes of this machine, or workers of a Dask cluster."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass

from evaluation.study.local_executor import LocalProcesses, WorkerDiedError
from planners.errors import GaplessError, MissingDependencyError
from planners.text.plain_text import one_line

CONNECT_SECONDS = 10


@dataclass(frozen=True)
class Workforce:
    """An executor, and how many calls it works on at once."""

    executor: Executor
    width: Callable[[], int]
    # What kills its workers raises, in the future of the call that they were at.
    died: type[BaseException] | tuple[type[BaseException], ...]
    # Whether runs are made on this machine.
    is_local: bool


@contextmanager
def local_processes(jobs: int | None, *, timed: bool) -> Iterator[Workforce]:
    """Open processes of this machine: one a core by default, and one where times count."""
    cores = len(os.sched_getaffinity(0))
    if jobs is not None and jobs < 1:
        raise GaplessError(f"--jobs: at least 1 is needed, found {jobs}")
    if timed and jobs is not None and jobs > cores:
        raise GaplessError(
            f"--jobs: a timed study runs at most one run a core, {cores} here, found {jobs}"
        )
    count = jobs or (1 if timed else cores)
    executor = LocalProcesses(count)
    try:
        yield Workforce(executor, lambda: count, WorkerDiedError, is_local=True)
    finally:
        executor.shutdown(cancel_futures=True)


@contextmanager
def dask_cluster(address: str) -> Iterator[Workforce]:
    """Connect to the scheduler of a Dask cluster, such as ``tcp://host:8786``."""
    try:
        from distributed import Client, KilledWorker
    except ImportError as error:
        raise MissingDependencyError(
            f"--scheduler needs distributed ({error})", "cluster"
        ) from None
    # What ends the connection ends the study, which says so in a line. Dask and its event loop log
    # it as well, under names and at moments of their own, some of them at the end of the process.
    logging.disable()
    try:
        client = Client(address, timeout=CONNECT_SECONDS)
    except (OSError, ValueError) as error:
        raise GaplessError(
            f"--scheduler: an address such as tcp://host:8786 that answers is needed, found "
            f"{address} ({one_line(str(error), 200)})"
        ) from None
    try:
        executor = client.get_executor(pure=False)
        yield Workforce(
            executor,
            lambda: max(1, sum(client.nthreads().values())),
            KilledWorker,
            is_local=False,
        )
    finally:
        executor.shutdown(wait=False)
        client.close(timeout=CONNECT_SECONDS)
