"""``python -m instances``: the catalogue of instances, what makes them, and what changes them."""

from __future__ import annotations

from planners.command_line.starting import start

if __name__ == "__main__":
    start()

import json
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from instances.benchmark.kit import write_kit
from instances.benchmark.page import benchmark_page
from instances.benchmark.results_file import SUFFIX, read_results
from instances.benchmark.verdicts import PLANS, judge_results, record_improvements
from instances.catalogue.catalogue_file import CATALOGUE, read_catalogue, write_catalogue
from instances.catalogue.instance_folders import folders_of, is_checkout
from instances.catalogue.listing import (
    catalogue_table,
    choose_entries,
    description,
    is_here,
    matching_names,
    record,
)
from instances.catalogue.make import make, make_folder
from instances.catalogue.update import (
    DEFAULT_PLANNERS,
    DEFAULT_TIME_LIMIT_SECONDS,
    instance_files,
    updated_entry,
)
from instances.synthetic.family_commands import app as synthetic_app
from planners.command_line.ending import complain
from planners.command_line.starting import EXIT_INVALID_PLAN
from planners.command_line.typer_frame import AsJson, CommandLine, TimeLimit
from planners.errors import GaplessError, InstanceError, errors_at
from planners.files.output_file import require_targets, say_written, write_output
from planners.processes import standard_output
from planners.recompute.recompute_command import RecomputeOptions, keep_within
from planners.reorder.reorder_command import reorder_file
from planners.text.progress_line import show_progress

app = CommandLine(
    no_args_is_help=True, help="Instances: list, make, and change them to need fewer bytes."
)
app.add_typer(synthetic_app, name="synthetic")

Catalogue = Annotated[
    Path,
    typer.Option("--catalogue", metavar="FILE", help="Catalogue, with its instances beside it."),
]
Patterns = Annotated[
    list[str] | None, typer.Argument(metavar="[NAME]...", help="Names or wildcards; all if none.")
]

Folder = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Folder of more instances: made again, or published."),
]


@app.command("list")
def list_entries(
    names: Patterns = None,
    tag: Annotated[list[str] | None, typer.Option(help="Tag or kind; repeatable.")] = None,
    as_json: AsJson = False,
    catalogue: Catalogue = CATALOGUE,
) -> None:
    """List the instances: counts, bounds, the best plan known."""
    entries = choose_entries(read_catalogue(catalogue), names or [], tag or [])
    folders = folders_of(catalogue)
    if as_json:
        answer = {"instances": [record(entry, folders) for entry in entries]}
        standard_output.write(json.dumps(answer, indent=1, allow_nan=False) + "\n")
        return
    standard_output.write_table(catalogue_table(entries, folders))
    missing = ", ".join(
        entry.name for entry in entries if not entry.source and not is_here(entry, folders)
    )
    if missing:  # on standard error, as a program may read the rows
        typer.echo(f"not here: {missing}; python -m instances make --missing makes them", err=True)


@app.command()
def show(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Names or wildcards.")],
    catalogue: Catalogue = CATALOGUE,
) -> None:
    """Show everything that the catalogue says about an instance."""
    chosen = choose_entries(read_catalogue(catalogue), names)
    folders = folders_of(catalogue)
    standard_output.write("\n".join(description(entry, folders) for entry in chosen))


@app.command("make")
def make_entries(
    names: Patterns = None,
    missing: Annotated[
        bool, typer.Option("--missing", help="Make every instance whose file is not here.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Folder for the files; by default $XDG_DATA_HOME/gapless/instances, in which "
            "names are looked up.",
        ),
    ] = None,
    catalogue: Catalogue = CATALOGUE,
) -> None:
    """Make instances again by their recorded commands, and check that they are the same."""
    if not names and not missing:
        raise InstanceError("no instance named; give names, or --missing")
    chosen = choose_entries(read_catalogue(catalogue), names or [])
    found_by_name = folders_of(catalogue)
    folder = found_by_name[-1] if output is None else output
    if output is None:
        make_folder(folder)
    failed = 0
    for entry in chosen:
        if missing and (entry.source or is_here(entry, [*found_by_name, folder])):
            continue
        try:
            made = make(entry, folder, keeps_others=output is not None)
            standard_output.write(f"{made}: the recorded instance\n")
        except GaplessError as error:
            failed = complain(error)
    if failed:
        raise typer.Exit(failed)


@app.command()
def benchmark(
    target: Annotated[Path | None, typer.Argument(metavar="DIR", help="Folder to write.")] = None,
    folder: Folder = None,
    page: Annotated[
        Path | None, typer.Option(metavar="FILE.md", help="Write the page on the benchmark here.")
    ] = None,
    catalogue: Catalogue = CATALOGUE,
) -> None:
    """Write the instances, their list and a checker of results, for planners of any language."""
    if target is None and page is None:
        raise InstanceError("nothing to write; give a folder, or --page")
    require_targets({"--page": page})
    if target is not None:
        entries = read_catalogue(catalogue).values()
        standard_output.write(f"{write_kit(entries, _places(catalogue, folder), target)}\n")
    if page is not None:
        write_output(page, benchmark_page().encode())
        say_written(page, f"{page}: the page on the benchmark")


@app.command()
def update(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]... | RESULTS.jsonl",
            help="Names or wildcards, all if none; or one results file to judge.",
        ),
    ] = None,
    folder: Folder = None,
    planners: Annotated[
        str, typer.Option(metavar="NAMES", help="Planners to run, as in planners.compare.")
    ] = DEFAULT_PLANNERS,
    time_limit: TimeLimit = DEFAULT_TIME_LIMIT_SECONDS,
    catalogue: Catalogue = CATALOGUE,
) -> None:
    """Derive counts and bounds again, look for better plans, and write the catalogue.

    New files beside the catalogue are added. An instance whose file is not here stays as it is.
    Given a results file, the command judges every plan in it, and records each plan that is better
    than the best known one.
    """
    if any(name.endswith(SUFFIX) for name in names or []):
        _update_by_results([Path(name) for name in names or []], folder, catalogue)
        return
    if catalogue == CATALOGUE and not is_checkout():
        raise GaplessError(
            f"--catalogue: {CATALOGUE} is the installed package's; name a file of your own"
        )
    require_targets({"--catalogue": catalogue})
    entries = read_catalogue(catalogue) if catalogue.exists() else {}
    published = {*(name for name in entries if entries[name].source), *(names or [])}
    files = {name: (path, True) for name, path in instance_files(catalogue.parent).items()}
    if folder is not None:
        here = instance_files(folder, published)
        files = {name: (path, False) for name, path in here.items()} | files
    wanted = matching_names(names, {*entries, *files}) if names else set(files)
    for name in sorted(wanted):
        if name not in files:
            typer.echo(f"{name}: not here, left as it is", err=True)
            continue
        path, committed = files[name]
        before = entries.get(name)
        entries[name] = updated_entry(
            path,
            name,
            before,
            committed=committed,
            planners=planners,
            seconds=time_limit,
            on_start=lambda _index, planner: show_progress(planner),
        )
        show_progress("")
        best = entries[name].best
        changed = "new" if before is None else "as before" if before == entries[name] else "changed"
        standard_output.write(
            f"{name}: {best.peak} bytes, {best.status}, by {best.planner}; {changed}\n"
        )
        # Written after each instance, so that an error or Ctrl-C keeps the results so far.
        write_catalogue(entries.values(), catalogue)


def _update_by_results(paths: list[Path], folder: Path | None, catalogue: Path) -> None:
    if len(paths) > 1:
        raise InstanceError(f"one results file alone is needed, found {len(paths)} arguments")
    entries = read_catalogue(catalogue)
    places = _places(catalogue, folder)
    with errors_at(paths[0]):
        verdicts = judge_results(read_results(paths[0]), entries, places)
    for verdict in verdicts:
        standard_output.write(f"{verdict}\n")
    counts = Counter(verdict.word for verdict in verdicts)
    standard_output.write(
        f"{counts['improves']} improved, {counts['equals']} equalled, {counts['misses']} missed, "
        f"{counts['refused']} refused\n"
    )
    if counts["improves"] and catalogue == CATALOGUE and not is_checkout():
        typer.echo("the installed catalogue stays; in a checkout, this command records", err=True)
    elif counts["improves"]:
        record_improvements(verdicts, entries, places, catalogue.parent / PLANS)
        write_catalogue(entries.values(), catalogue)
    if counts["refused"]:
        raise typer.Exit(EXIT_INVALID_PLAN)


def _places(catalogue: Path, folder: Path | None) -> list[Path]:
    """Return the folders of instances: those of the catalogue, and the one that a user names."""
    return [*folders_of(catalogue), *([] if folder is None else [folder])]


app.command("reorder")(reorder_file)
app.command_of(RecomputeOptions, "recompute")(keep_within)

main = app.run

if __name__ == "__main__":
    main()
