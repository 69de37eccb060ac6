"""``python -m evaluation.regress OLD NEW``: worse, better, invalid, slower, run by run."""

from __future__ import annotations

from planners.command_line.starting import start

if __name__ == "__main__":
    start()

from pathlib import Path
from typing import Annotated

import typer

from evaluation.study.record_changes import Changes, Verdict, changes_between
from evaluation.study.records_file import read_records
from planners.command_line import standard_output
from planners.command_line.typer_frame import CommandLine
from planners.text.byte_units import counted
from planners.text.plain_text import one_line
from planners.text.table import Column, Row, Table

EXIT_LOSS = 1
STYLES = {Verdict.INVALID: "bold red", Verdict.WORSE: "red", Verdict.BETTER: "green"}

app = CommandLine(no_args_is_help=True)


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
    columns = [
        Column(heading, is_left=True, wraps=heading == "what")
        for heading in ("", "instance", "planner", "what")
    ]
    rows = [
        Row(
            (str(change.verdict), one_line(change.instance), change.label, one_line(change.says)),
            style=STYLES.get(change.verdict, ""),
        )
        for change in changes.found
    ]
    if rows:
        standard_output.write_table(Table(columns, rows), below=f"{summary(changes)}\n")
    else:
        standard_output.write(f"{summary(changes)}\n")
    raise typer.Exit(EXIT_LOSS if changes.has_loss else 0)


def summary(changes: Changes) -> str:
    """Return the last line: the number of compared runs, and of each kind of change."""
    counts = ", ".join(f"{changes.count(verdict)} {verdict}" for verdict in Verdict)
    times = f"times of {changes.timed:,} of them compared"
    added = f"; {counted(changes.added, 'run')} only in the new records" if changes.added else ""
    return f"{counted(changes.compared, 'run')} compared: {counts}; {times}{added}"


main = app.run

if __name__ == "__main__":
    main()
