"""``python -m evaluation.study``: run and list studies, and show, report and compare records."""

from __future__ import annotations

from planners.command_line.starting import start

if __name__ == "__main__":
    start()

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from evaluation.measuring.cores import use_every_core
from evaluation.recordings.recorded_runs import record_runs
from evaluation.study.executors import dask_cluster, local_processes
from evaluation.study.planned_runs import AnyRun, PlannedRun, runs_of, trained_runs_of
from evaluation.study.record_age import age_of_records
from evaluation.study.record_changes import changes_between
from evaluation.study.records_file import RecordsFile, read_records, records_file
from evaluation.study.runner import Progress, StaleRecordsError, run_all, runs_without_record
from evaluation.study.study import Study
from evaluation.study.study_file import FOLDER, SUFFIX, Typed, find_study, schema_of, studies
from evaluation.study.study_instances import Folders
from evaluation.study.training_grid import TrainedRun
from evaluation.study.training_runner import train_all
from gpu_runtime.training.run_processes import waiting_run
from planners.command_line.typer_frame import CommandLine, Plugins
from planners.errors import GaplessError
from planners.files.output_file import say_written
from planners.processes import standard_output
from planners.processes.isolated_process import address_space_bytes
from planners.registry import load_plugin
from planners.text.byte_units import counted, human_bytes
from planners.text.plain_text import printable
from planners.text.progress_line import show_progress
from planners.text.table import aligned_pairs

app = CommandLine(no_args_is_help=True, help="Studies: runs of planners on instances, as data.")

RESULTS = Path("results")
EXIT_LOSS = 1

Which = Annotated[
    str, typer.Argument(metavar="NAME|FILE.toml", help="A study of Gapless, or your own file.")
]
Only = Annotated[
    str,
    typer.Option(
        metavar="KEYS", help="Runs whose keys match one of these wildcards, separated by commas."
    ),
]
Given = Annotated[
    list[str] | None,
    typer.Option(
        "--folder",
        metavar="NAME=PATH",
        help="Folder of instances that do not come with the study; repeatable.",
    ),
]


@app.command("list")
def list_studies() -> None:
    """List the studies of Gapless: each question, the age of its records, and later changes."""
    pairs = []
    for name in studies():
        study = find_study(name)
        pairs += [(name, study.question), ("", age_of_records(study, RESULTS))]
    standard_output.write(aligned_pairs(pairs))


@app.command()
def schema(
    what: Annotated[Typed, typer.Argument(help="Schema of a record, or of a study's file.")],
) -> None:
    """Print the JSON schema of a record, which is a line of results, or of a study's file."""
    standard_output.write(json.dumps(schema_of(what), indent=1) + "\n")


@app.command()
def show(
    which: Which,
    only: Only = "",
    folder: Given = None,
    keys: Annotated[bool, typer.Option("--keys", help="Show the key of every run.")] = False,
) -> None:
    """Show the runs of a study, without executing its own Python files."""
    study = find_study(which)
    folders, patterns = _folders(which, folder), _patterns(only)
    pairs = [("study", study.name), ("question", study.question)]
    if study.training:
        trained = trained_runs_of(study, folders, patterns)
        names = [run.key for run in trained]
        pairs += _about_trainings(trained)
    else:
        planned = runs_of(study, folders, patterns, executes_plugins=False)
        names = [run.key for run in planned]
        pairs += _about_runs(study, planned)
    if keys:
        standard_output.write("".join(f"{printable(name)}\n" for name in names))
    else:
        standard_output.write(aligned_pairs(pairs))


def _about_runs(study: Study, runs: Sequence[PlannedRun]) -> list[tuple[str, str]]:
    longest = sum(run.limits.seconds for run in runs)
    instances = {run.instance.name for run in runs}
    planners = {(run.kind.name, run.named.label) for run in runs}
    memory = max(run.limits.memory_bytes for run in runs)
    pairs = [
        ("runs", f"{len(runs)}: {counted(len(instances), 'instance')}, "
                 f"{counted(len(planners), 'planner')}"),
        ("times count", "yes, each run on a core of its own" if study.timed else "no"),
        ("memory", f"at most {human_bytes(memory)} a run"),
        ("at most", f"{longest / 3600:.1f} hours on one core"),
    ]  # fmt: skip
    if study.plugins:
        files = ", ".join(str(plugin.path) for plugin in study.plugins)
        pairs.append(("executes", f"{files}; not executed here, so its names count as written"))
    return pairs


def _about_trainings(runs: Sequence[TrainedRun]) -> list[tuple[str, str]]:
    programs = counted(len({run.program.name for run in runs}), "program")
    allocators = ", ".join(dict.fromkeys(run.allocator for run in runs))
    return [
        ("runs", f"{len(runs)}: {programs} under {allocators}"),
        ("times count", "yes, allocators in turns on a GPU on which nothing else runs"),
    ]


@app.command()
def run(
    which: Which,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE.jsonl", help="Records; results/NAME.jsonl by default."
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Runs at once; by default one a core, or a single one if timed."
        ),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Run on this Dask cluster, such as tcp://host:8786."),
    ] = None,
    only: Only = "",
    folder: Given = None,
    drop_changed: Annotated[
        bool,
        typer.Option("--drop-changed", help="Drop records of changed runs, and rerun these."),
    ] = False,
) -> None:
    """Run a study, or resume it: runs that have a record are not run again.

    Each run adds its record when it ends, so a study may be killed at any moment and resumed.
    """
    if scheduler is not None and jobs is not None:
        raise GaplessError("--jobs and --scheduler: one of the two is needed, found both")
    study = find_study(which)
    if study.plugins:
        files = ", ".join(printable(str(plugin.path)) for plugin in study.plugins)
        typer.echo(f"executes {files}", err=True)
    path = output or RESULTS / f"{study.name}.jsonl"
    folders, patterns = _folders(which, folder), _patterns(only)
    if study.training:
        for option, value in (("--jobs", jobs), ("--scheduler", scheduler)):
            if value:
                raise GaplessError(
                    f"{option}: a study of training takes the GPUs of this machine, found {value}"
                )
        trained = trained_runs_of(study, folders, patterns)
        _record_runs(study, trained, path, _train, drop_changed=drop_changed)
        return

    def make(study: Study, left: Sequence[PlannedRun], file: RecordsFile, its: Progress) -> None:
        opened = (
            dask_cluster(scheduler)
            if scheduler is not None
            else local_processes(jobs, timed=study.timed)
        )
        with opened as workforce:
            run_all(study, left, file, workforce, its, _shown(study))

    if scheduler is None:
        address_space_bytes()  # raises where no run could be limited, before there are records
    planned = runs_of(study, folders, patterns)
    _record_runs(study, planned, path, make, drop_changed=drop_changed)


def _train(study: Study, left: Sequence[TrainedRun], file: RecordsFile, its: Progress) -> None:
    use_every_core()  # for the processes that load data
    train_all(study.name, left, file, its, show_progress, waiting_run)


def _record_runs(
    study: Study,
    runs: Sequence[AnyRun],
    path: Path,
    make: Callable[[Study, Sequence[AnyRun], RecordsFile, Progress], None],
    *,
    drop_changed: bool,
) -> None:
    """Make the runs that a file has no record of; if ``drop_changed``, drop stale records first."""
    with records_file(path, _inputs(study, runs)) as file:
        try:
            left, progress = runs_without_record(study, runs, file)
        except StaleRecordsError as stale:
            if not drop_changed:
                raise
            file.drop(stale.lines)
            left, progress = runs_without_record(study, runs, file)
        if left:
            with _resumable(path):
                make(study, left, file, progress)
    standard_output.write(f"{progress.line(study.name)}: {path}\n")


@app.command()
def record(
    folder: Annotated[Path, typer.Argument(help="Existing folder for the files.")],
) -> None:
    """Trace the runs that studies of online allocators replay; needs torch, but no GPU."""
    if not folder.is_dir():
        raise GaplessError(f"{folder}: a folder is needed, found none")
    for path in record_runs(folder):
        say_written(path, f"wrote {path}")


@app.command()
def report(
    results: Annotated[
        list[Path], typer.Argument(metavar="RESULTS.jsonl...", help="Records of studies.")
    ],
    folder: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FOLDER", help="Write report.md and report.html there."
        ),
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.md", help="Fill the text of the study's page, and write it there."
        ),
    ] = None,
    maps: Annotated[
        list[Path] | None,
        typer.Option(
            "--map",
            metavar="FILE",
            help="Add a memory map of this instance, for which plans are made again; repeatable.",
        ),
    ] = None,
    plugin: Plugins = None,
) -> None:
    """Show records of studies: tables of gaps, figures, memory maps.

    -o writes a report; --page writes the page of one study, from which all the records are.
    """
    # Imported here because a study runs without the packages that pages need.
    from evaluation.pages.written_report import read_all, write_pages

    records = read_all(results)
    if folder is None and page is None:
        raise GaplessError(
            "-o FOLDER for a report or --page FILE.md for a study's page: one of the two is "
            "needed, found neither"
        )
    if maps and folder is None:
        raise GaplessError("--map: maps are part of a report, give -o as well")
    with standard_output.kept_for_the_answer():
        for path in plugin or []:
            load_plugin(path)
    write_pages(records, results, folder, page, maps or [])


@app.command()
def regress(
    old: Annotated[Path, typer.Argument(metavar="OLD.jsonl", help="Records to compare with.")],
    new: Annotated[Path, typer.Argument(metavar="NEW.jsonl", help="Records of the same runs.")],
) -> None:
    """Compare new records with old ones, run by run.

    Exits with 1 if quality was lost: a larger or invalid plan, or a plan, a proof, a bound or a
    run that is missing; with 2 after an error; else with 0.
    """
    changes = changes_between(read_records(old), read_records(new))
    if changes.found:
        standard_output.write_table(changes.table(), below=f"{changes.summary()}\n")
    else:
        standard_output.write(f"{changes.summary()}\n")
    raise typer.Exit(EXIT_LOSS if changes.has_loss else 0)


def _shown(study: Study) -> Callable[[Progress], None]:
    return lambda progress: show_progress(progress.line(study.name))


def _inputs(study: Study, runs: Sequence[AnyRun]) -> set[Path]:
    """Return the files that a study reads."""
    inputs = {study.path, *(plugin.path for plugin in study.plugins)}
    inputs.update(run.file for run in runs if run.file is not None)
    return inputs


@contextmanager
def _resumable(path: Path) -> Iterator[None]:
    """Print which records are kept, above the error that ended the study."""
    try:
        yield
    except BaseException:
        show_progress("")
        typer.echo(
            f"{path} keeps the records of all ended runs; the same command resumes there", err=True
        )
        raise
    finally:
        show_progress("")


def _folders(which: str, given: Sequence[str] | None) -> Folders:
    """Return the folders of a study's files."""
    paths = {}
    for text in given or ():
        name, equals, path = text.partition("=")
        if not equals or not path:
            raise GaplessError(f"--folder {text}: NAME=PATH is needed, found no path")
        if name in paths:
            raise GaplessError(f"--folder {text}: one path for {name} is needed, found two")
        paths[name] = Path(path)
    return Folders(Path(which).parent if which.endswith(SUFFIX) else FOLDER, paths)


def _patterns(only: str) -> list[str]:
    return [pattern for part in only.split(",") if (pattern := part.strip())]


main = app.run

if __name__ == "__main__":
    main()
