"""Executors of runs: processes of this machine, or workers of a Dask cluster."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import active_children, get_context, resource_tracker
from multiprocessing.process import BaseProcess
from typing import ParamSpec, TypeVar

from planners.errors import GaplessError, MissingDependencyError
from planners.processes.child_process import how_it_ended, tied_to_this_process
from planners.text.plain_text import one_line

Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer")


class WorkerDiedError(Exception):
    """The worker process of a call ended without an answer; the message says how."""


class LocalProcesses(ThreadPoolExecutor):
    """An executor of ``count`` processes, each of which makes one call at a time.

    Note: why each thread has a pool of one process. If one worker of a pool dies, every running
    call of the pool fails, nothing tells which call killed it, and the pool is of no more use.
    """

    def __init__(self, count: int) -> None:
        super().__init__(count, initializer=_block_interrupts)
        self._workers: dict[threading.Thread, tuple[ProcessPoolExecutor, BaseProcess]] = {}
        self._worker_lock = threading.Lock()
        self._is_over = False

    def submit(
        self,
        function: Callable[Parameters, Answer],
        /,
        *args: Parameters.args,
        **options: Parameters.kwargs,
    ) -> Future[Answer]:
        """Return the future of a call; function, arguments and answer travel by pickle."""
        return super().submit(self._ask, partial(function, *args, **options))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes: after all submitted calls, or at once if the calls are cancelled."""
        super().shutdown(wait=False, cancel_futures=cancel_futures)
        if cancel_futures:
            with self._worker_lock:
                self._is_over = True
                for _, process in self._workers.values():
                    process.kill()
        if wait:
            super().shutdown()
            for pool, _ in self._workers.values():
                pool.shutdown()

    def _ask(self, call: Callable[[], Answer]) -> Answer:
        thread = threading.current_thread()
        pool, process = self._workers.get(thread) or self._start()
        try:
            return pool.submit(call).result()
        except BrokenProcessPool:
            pool.shutdown()  # waits for the end of the process
            with self._worker_lock:
                del self._workers[thread]
            raise WorkerDiedError(f"its worker {how_it_ended(process.exitcode or 0)}") from None

    def _start(self) -> tuple[ProcessPoolExecutor, BaseProcess]:
        # A spawned process has one thread, and shares no memory with this process.
        pool = ProcessPoolExecutor(
            1, get_context("spawn"), _begin_worker, (tied_to_this_process(),)
        )
        with self._worker_lock:
            before = active_children()
            pool.submit(os.getpid)
            [process] = {*active_children()} - {*before}
            self._workers[threading.current_thread()] = pool, process
            if self._is_over:
                process.kill()
        return pool, process


def _block_interrupts() -> None:
    # Workers inherit the blocked signal, so Ctrl-C cannot reach them while they start. The
    # tracker starts first, because its start unblocks the signal.
    resource_tracker.ensure_running()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def _begin_worker(end_with_parent: Callable[[], None]) -> None:
    end_with_parent()
    # The terminal sends Ctrl-C to every process; the parent alone decides when a worker ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


CONNECT_SECONDS = 10


@dataclass(frozen=True)
class Workforce:
    """An executor, and the number of calls that it works on at once."""

    executor: Executor
    width: Callable[[], int]
    # Exceptions that the future of a call raises if the call's worker was killed.
    died: type[BaseException] | tuple[type[BaseException], ...]
    # True if runs are made on this machine.
    is_local: bool


@contextmanager
def local_processes(jobs: int | None, *, timed: bool) -> Iterator[Workforce]:
    """Open processes of this machine: by default one for each core, or one if times count."""
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
    # A lost connection ends the study with an error of one line. Dask and its event loop would log
    # the loss as well, under several names and as late as the end of the process.
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
