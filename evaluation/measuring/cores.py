"""The cores that measurements may use."""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

# Seconds between two attempts to lock a core. A guess.
WAIT_SECONDS = 0.02


def use_every_core() -> None:
    """Let this process and its workers run on every core that the system grants them."""
    os.sched_setaffinity(0, range(os.cpu_count() or 1))


@contextmanager
def a_core_of_its_own() -> Iterator[int]:
    """Keep this thread, and the processes it starts, on a core that no other holder is on.

    If other holders have all cores, it waits for one.

    Note: each core has a file, and a core is taken while its file is locked. All Gapless programs
    of this user respect the locks, and the system releases a lock when its holder dies. Other
    programs may still run on a locked core.
    """
    granted = os.sched_getaffinity(0)
    folder = Path(tempfile.gettempdir()) / f"gapless-cores-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    with _a_free_core(folder, sorted(granted)) as core:
        os.sched_setaffinity(0, {core})
        try:
            yield core
        finally:
            os.sched_setaffinity(0, granted)


@contextmanager
def _a_free_core(folder: Path, cores: Sequence[int]) -> Iterator[int]:
    while True:
        for core in cores:
            with (folder / f"{core}.lock").open("w") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue
                try:
                    yield core
                finally:
                    # To close the file is not enough: a child that another thread forked in the
                    # meantime has it open as well, and would keep the lock.
                    fcntl.flock(lock, fcntl.LOCK_UN)
                return
        time.sleep(WAIT_SECONDS)
