"""A process that waits for questions and answers in lines."""

from __future__ import annotations

import select
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO

from planners.processes import child_process

# Seconds that a process has to end after SIGTERM; a guess.
SECONDS_TO_END = 5.0


@dataclass(frozen=True)
class LastWords:
    """The end of a process."""

    # The last line that the process wrote; empty if it wrote none.
    line: str
    # The exit code or the signal; empty if the process exited with 0.
    death: str
    # The last line of its standard error, behind a colon.
    complaint: str


@dataclass(frozen=True)
class AskedProcess:
    """A process that is asked by lines on its standard input."""

    process: subprocess.Popen[str]
    complaints: IO[str]

    def ask(self, question: str) -> None:
        """Send the one line that the process waits for; if it has died, its answer shows that."""
        with suppress(BrokenPipeError):
            assert self.process.stdin is not None
            self.process.stdin.write(question + "\n")
            self.process.stdin.flush()

    def line(self, limit_seconds: float | None) -> str | None:
        """Return the next line, an empty one if the process has ended, or None after the limit.

        The process must wait after each line: further lines would be lost.
        """
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], limit_seconds)
        return self.process.stdout.readline() if ready else None

    def end(self, limit_seconds: float | None = None, already_read: str = "") -> LastWords | None:
        """Wait for the end of the process, and return its last words, or None after the limit."""
        try:
            output, _ = self.process.communicate(timeout=limit_seconds)
        except subprocess.TimeoutExpired:
            return None
        self.complaints.seek(0)
        said = [line.strip() for line in self.complaints if line.strip()]
        return LastWords(
            ["", *(already_read + output).splitlines()][-1],
            _death(self.process.returncode),
            f": {said[-1]}" if said else "",
        )


@contextmanager
def asked_process(command: Sequence[str], environment: Mapping[str, str]) -> Iterator[AskedProcess]:
    """Start a process that is asked; at the end of this context it has ended or is ended.

    It also ends with the thread that started it.
    """
    with (
        tempfile.TemporaryFile("w+", errors="replace") as complaints,
        # A session of its own keeps Ctrl-C away from the process; the parent ends it. It dies with
        # a killed parent, because otherwise it would keep memory of a GPU.
        child_process.start(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            env=environment,
            text=True,
            start_new_session=True,
        ) as process,
    ):
        try:
            yield AskedProcess(process, complaints)
        finally:
            if process.poll() is None:
                _make_end(process)


def _death(code: int) -> str:
    if code < 0:
        return f"by {child_process.signal_name(-code)}"
    return f"exit code {code}" if code else ""


def _make_end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
