"""Executors of runs: processes of this machine, or workers of a Dask cluster.

Note: why not the standard library's pool of processes. If one of its workers dies, every running
call fails, nothing tells which call killed it, and the pool is of no more use.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

from planners.errors import GaplessError, MissingDependencyError
from planners.processes.child_process import signal_name, tied_to_this_process
from planners.text.plain_text import describe_error, one_line

Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer")
_Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class WorkerDiedError(Exception):
    """The worker process of a call ended without an answer; the message says how."""


class WorkerFailedError(Exception):
    """A call raised an exception that may not pickle; the message describes the exception."""


class LocalProcesses(Executor):
    """An executor of ``count`` processes, each of which makes one call at a time."""

    def __init__(self, count: int) -> None:
        self._calls: SimpleQueue[tuple[Future[Any], _Call] | None] = SimpleQueue()
        self._workers: set[_Worker] = set()
        self._lock = threading.Lock()
        self._is_over = False
        self._threads = [
            # A worker process ends with the thread that started it, so these threads live on.
            threading.Thread(target=self._serve, name=f"worker {number}", daemon=True)
            for number in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def submit(
        self,
        function: Callable[Parameters, Answer],
        /,
        *args: Parameters.args,
        **options: Parameters.kwargs,
    ) -> Future[Answer]:
        """Return the future of a call; function, arguments and answer travel by pickle."""
        future: Future[Answer] = Future()
        self._calls.put((future, (function, args, options)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes: after all submitted calls, or at once if the calls are cancelled."""
        if cancel_futures:
            self._is_over = True
            with self._lock:
                for worker in self._workers:
                    worker.kill()
        for _ in self._threads:
            self._calls.put(None)
        if wait:
            for thread in self._threads:
                thread.join()

    def _serve(self) -> None:
        worker: _Worker | None = None
        # Workers inherit the blocked signal, so Ctrl-C cannot reach them while they start. The
        # tracker starts first, because its start unblocks the signal.
        resource_tracker.ensure_running()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        while (item := self._calls.get()) is not None:
            future, call = item
            if self._is_over:
                future.cancel()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                if worker is None:
                    worker = self._start()
                answer = worker.ask(call)
            except WorkerDiedError as error:
                self._forget(worker)
                worker = None
                future.set_exception(error)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(answer)
        self._forget(worker)

    def _start(self) -> _Worker:
        with self._lock:
            worker = _Worker()
            self._workers.add(worker)
            if self._is_over:
                worker.kill()
        return worker

    def _forget(self, worker: _Worker | None) -> None:
        if worker is not None:
            with self._lock:
                self._workers.discard(worker)
            worker.close()


class _Worker:
    """A spawned process: it has one thread, and shares no memory with this process."""

    def __init__(self) -> None:
        context = get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs, tied_to_this_process()))
        self._process.start()
        theirs.close()

    def ask(self, call: _Call) -> Any:
        try:
            self._connection.send(call)
            answer, error = self._connection.recv()
        except (EOFError, ConnectionError):
            self._process.join()
            raise WorkerDiedError(_how_it_ended(self._process.exitcode)) from None
        if error is not None:
            raise error
        return answer

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        # A process that waits for its next call ends when the connection is closed.
        self._connection.close()
        self._process.join()


def _how_it_ended(code: int | None) -> str:
    if code is not None and code < 0:
        return f"its worker ended by signal {signal_name(-code)}"
    return f"its worker ended with exit status {code}"


def _work(connection: Connection, end_with_parent: Callable[[], None]) -> None:
    end_with_parent()
    # The terminal sends Ctrl-C to every process; the parent alone decides when a worker ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    while True:
        try:
            call = connection.recv()
        except (EOFError, ConnectionError):
            return
        connection.send(_answer_of(*call))


def _answer_of(
    function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]
) -> tuple[Any, Exception | None]:
    try:
        return function(*args, **options), None
    except GaplessError as error:
        return None, error
    except Exception as error:
        # The exception may not pickle: its description travels.
        return None, WorkerFailedError(describe_error(error))


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
