"""The runner: sends out the runs that have no record yet, and records each as it ends."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from dataclasses import dataclass
from datetime import datetime, timedelta

from evaluation.study.executors import Workforce
from evaluation.study.kinds import carry_out, crashed
from evaluation.study.planned_runs import AnyRun, PlannedRun
from evaluation.study.plugins import digest_of
from evaluation.study.record import AnyRecord, Machine, Record
from evaluation.study.records_file import KnownRecord, RecordsFile
from evaluation.study.run_task import RunTask
from evaluation.study.sent_instance import Training
from evaluation.study.study import Study
from evaluation.study.study_instances import StudyInstance
from evaluation.study.surroundings import this_machine
from planners.errors import GaplessError
from planners.processes.interrupt import Interrupt
from planners.text.byte_units import counted

# Runs in flight for each worker, so that no worker waits for its next run. A guess.
AHEAD = 2
# Seconds between two counts of the workers of a cluster. A guess.
WIDTH_SECONDS = 10.0
# Changed files that a message names.
MOST_NAMED = 3
# Seconds. A signal right before a wait is handled after it, so each wait is short. A guess.
MOST_WAIT_SECONDS = 0.5


class StaleRecordsError(GaplessError):
    """Records answer questions that the study no longer asks; ``lines`` are their line numbers."""

    def __init__(self, message: object, lines: Collection[int] = ()) -> None:
        super().__init__(message)
        self.lines = lines


@dataclass
class Progress:
    """The progress of a study."""

    total: int
    # Runs that had a record before this call began.
    recorded: int
    done: int = 0
    failed: int = 0
    begun: float = 0.0

    def line(self, name: str) -> str:
        """Return the progress as one line."""
        ended = self.recorded + self.done
        parts = [f"{name}: {ended} of {counted(self.total, 'run')}", f"{self.failed} failed"]
        if 0 < ended < self.total and self.done:
            left = (self.total - ended) * (time.monotonic() - self.begun) / self.done
            end = datetime.now() + timedelta(seconds=left)
            parts.append(f"expected end {end:{'%H:%M' if left < 86400 else '%d %b %H:%M'}}")
        return ", ".join(parts)


def _known_records(file: RecordsFile, study: str) -> dict[str, KnownRecord]:
    """Return the records of a file by run; each is of this study, and each run has one."""
    known: dict[str, KnownRecord] = {}
    for record in file.known:
        where = f"{file.path}:{record.line}"
        if record.study != study:
            raise GaplessError(
                f"{where}: a record of the study {study} is needed, found one of "
                f"{record.study}; write to another file with -o"
            )
        if record.run in known:
            raise GaplessError(
                f"{where}: each run is recorded once, found {record.run} again, after line "
                f"{known[record.run].line}; take one of the two lines out"
            )
        known[record.run] = record
    return known


def _require_unchanged(file: RecordsFile, changed: Sequence[tuple[KnownRecord, str]]) -> None:
    """Refuse records of runs that have changed since, each given with the name of the cause."""
    if not changed:
        return
    first = min((record for record, _ in changed), key=lambda record: record.line)
    causes = Counter(cause for _, cause in changed).most_common()
    parts = [
        f"{cause} has changed since {counted(count, 'record')}"
        for cause, count in causes[:MOST_NAMED]
    ]
    if len(causes) > MOST_NAMED:
        parts.append(f"{len(causes) - MOST_NAMED} more have changed")
    raise StaleRecordsError(
        f"{file.path}:{first.line}: {', '.join(parts)}, the first of {first.run}; write to "
        f"another file with -o, or run them again with --drop-changed",
        {record.line for record, _ in changed},
    )


def runs_without_record(
    study: Study, runs: Sequence[AnyRun], file: RecordsFile
) -> tuple[list[AnyRun], Progress]:
    """Return the runs that a file has no record of, and how far the study has come."""
    known = _known_records(file, study.name)
    _require_unchanged(
        file,
        [
            (known[run.key], run.changed_since(known[run.key]) or f"study {study.path}")
            for run in runs
            if run.key in known and known[run.key].asked != run.asked
        ],
    )
    left = [run for run in runs if run.key not in known]
    mine = [known[run.key] for run in runs if run.key in known]
    failed = sum(record.failed for record in mine)
    return left, Progress(len(runs), len(mine), failed=failed, begun=time.monotonic())


def run_all(
    study: Study,
    runs: Sequence[PlannedRun],
    file: RecordsFile,
    workforce: Workforce,
    progress: Progress,
    show: Callable[[Progress], None],
) -> None:
    """Make runs, and record each as it ends; an interruption leaves all records whole."""
    timed_on: Machine | None = None
    if study.timed:
        machines = [record.machine for record in file.known]
        machines += [this_machine()] if workforce.is_local else []
        for machine in machines:
            timed_on = timed_on or machine
            require_like(timed_on, machine, file)
    tasks = tasks_of(study, runs)
    under_way: dict[Future[str], RunTask] = {}
    width, asked = workforce.width(), time.monotonic()
    show(progress)
    while True:
        if Interrupt.has_come():
            raise KeyboardInterrupt
        while len(under_way) < AHEAD * width and (task := next(tasks, None)) is not None:
            under_way[workforce.executor.submit(carry_out, task)] = task
        if not under_way:
            return
        ended, _ = wait(under_way, timeout=MOST_WAIT_SECONDS, return_when=FIRST_COMPLETED)
        for future in ended:
            line, record = _record_of(future, under_way.pop(future), workforce)
            if study.timed:
                timed_on = timed_on or record.machine
                require_like(timed_on, record.machine, file)
            file.append(line)
            progress.done += 1
            progress.failed += record.failed
            show(progress)
        if time.monotonic() - asked > WIDTH_SECONDS:
            width, asked = workforce.width(), time.monotonic()


def require_like(machine: Machine, other: Machine, file: RecordsFile) -> None:
    """Refuse times of another machine than those of a file."""
    if not machine.is_like(other):
        raise GaplessError(
            f"{file.path}: its times are of {machine}, and this is {other}; times of unlike "
            f"machines do not compare: write to another file with -o"
        )


def _record_of(future: Future[str], task: RunTask, workforce: Workforce) -> tuple[str, AnyRecord]:
    try:
        line = future.result()
        return line, Record.from_json(line, task.run)
    except workforce.died as error:
        record = crashed(task, str(error))
        return record.to_json(), record
    except CancelledError:
        raise GaplessError("the scheduler is gone; its unfinished runs have no record") from None


def tasks_of(study: Study, runs: Sequence[PlannedRun]) -> Iterator[RunTask]:
    """Make the tasks as they are needed; an instance is packed once for its runs in a row."""
    instance: StudyInstance | Training | None = None
    for run in runs:
        if run.instance is not instance:
            instance, sent = run.instance, run.instance.sent()
        yield RunTask(
            study=study.name,
            run=run.key,
            asked=run.asked,
            instance=sent,
            kind=run.kind.name,
            named=run.named,
            plugin=digest_of(run.plugin),
            seed=run.seed,
            repetition=run.repetition,
            limits=run.limits,
            device=run.device,
            timed=study.timed,
            bounds_seconds=study.bounds_seconds,
            plugins=study.plugins,
        )
