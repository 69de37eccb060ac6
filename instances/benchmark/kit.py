"""The benchmark as a folder that needs nothing of Gapless: instances, their list, a checker."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path

from instances.benchmark.page import benchmark_page
from instances.catalogue.catalogue_entry import CatalogueEntry
from instances.catalogue.instance_folders import place_of, read_recorded
from instances.formats.minimalloc_csv import require_csv_holds, write_minimalloc_csv
from planners.errors import GaplessError, InstanceError
from planners.files.output_file import write_output
from planners.files.problem_file import write_problem
from planners.model.problem import Problem
from planners.text.plain_text import csv_cell

CHECKER = Path(__file__).with_name("check_results.py")
SCHEMA = Path(str(files("planners.files") / "instance.schema.json"))
LIST = "list.csv"


def write_kit(entries: Iterable[CatalogueEntry], folders: list[Path], target: Path) -> str:
    """Write the benchmark into a folder; return a sentence that counts what was written."""
    for folder in (target, target / "json", target / "csv"):
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise GaplessError(f"{folder}: no folder can be made: {error.strerror}") from None
    rows = []
    for entry in entries:
        written: dict[str, str | int] = {"json": "", "csv": ""}
        if place_of(entry, folders) is not None:
            problem = read_recorded(entry, folders)
            written["json"] = f"json/{entry.name}.json"
            write_problem(problem, target / f"json/{entry.name}.json")
            if _csv_holds(problem):
                written["csv"] = f"csv/{entry.name}.csv"
                write_minimalloc_csv(problem, target / f"csv/{entry.name}.csv")
        rows.append(_row(entry) | written)
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_output(target / LIST, text.getvalue().encode())
    for copied in (CHECKER, SCHEMA):
        write_output(target / copied.name, copied.read_bytes())
    # Links lead to other pages, which the folder does not have.
    page = re.sub(r"\[([^]\n]*)\]\([^)\n]*\)", r"\1", benchmark_page())
    write_output(target / "README.md", page.encode())
    json_files, csv_files = (sum(bool(row[key]) for row in rows) for key in ("json", "csv"))
    return (
        f"{target}: {json_files} of {len(rows)} instances as JSON, {csv_files} of them as CSV too; "
        f"also {LIST}, {CHECKER.name}, {SCHEMA.name} and README.md"
    )


def _csv_holds(problem: Problem) -> bool:
    try:
        require_csv_holds(problem)
    except InstanceError:
        return False
    return True


def _row(entry: CatalogueEntry) -> dict[str, str | int]:
    facts, best = entry.facts, entry.best
    return {
        "name": entry.name,
        "class": entry.difficulty,
        "kind": entry.kind,
        "tensors": facts.tensors,
        "streams": facts.streams,
        "chains": facts.chains,
        "best_peak": best.peak,
        "best_bound": best.lower_bound,
        "certificate": csv_cell(best.certificate),
        "found_by": csv_cell(best.planner),
        "digest": facts.digest,
        "source": csv_cell(entry.source),
        "licence": csv_cell(entry.licence),
    }
