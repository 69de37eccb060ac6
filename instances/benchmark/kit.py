"""The benchmark as a folder that needs nothing of Gapless: instances, their list, a checker."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from importlib.resources import files
from pathlib import Path

from instances.benchmark.page import benchmark_page
from instances.catalogue.catalogue_entry import CatalogueEntry
from instances.catalogue.instance_folders import place_of, read_recorded
from instances.catalogue.listing import record
from instances.formats.minimalloc_csv import require_csv_holds, write_minimalloc_csv
from planners.errors import GaplessError, InstanceError
from planners.files.output_file import write_output
from planners.files.problem_file import write_problem

CHECKER = Path(__file__).with_name("check_results.py")
SCHEMA = Path(str(files("planners.files") / "instance.schema.json"))
LIST = "list.json"


def write_kit(entries: Iterable[CatalogueEntry], folders: list[Path], target: Path) -> str:
    """Write the benchmark into a folder; return a sentence with the number of files."""
    for folder in (target, target / "json", target / "csv"):
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise GaplessError(f"{folder}: no folder can be made: {error.strerror}") from None
    rows = []
    for entry in entries:
        rows.append(record(entry, folders) | {"json": "", "csv": ""})
        if place_of(entry, folders) is not None:
            problem = read_recorded(entry, folders)
            rows[-1]["json"] = f"json/{entry.name}.json"
            write_problem(problem, target / rows[-1]["json"])
            with suppress(InstanceError):
                require_csv_holds(problem)
                rows[-1]["csv"] = f"csv/{entry.name}.csv"
                write_minimalloc_csv(problem, target / rows[-1]["csv"])
    write_output(target / LIST, json.dumps({"instances": rows}, indent=1).encode())
    for copied in (CHECKER, SCHEMA):
        write_output(target / copied.name, copied.read_bytes())
    # Links lead to other pages, which the folder does not have; names in tables are escaped.
    page = re.sub(r"(?<!\\)\[([^]\n]*)\]\([^)\n]*\)", r"\1", benchmark_page())
    write_output(target / "README.md", page.encode())
    as_json, as_csv = (sum(bool(row[key]) for row in rows) for key in ("json", "csv"))
    return (
        f"{target}: {as_json} of {len(rows)} instances as JSON, {as_csv} of them as CSV too; also "
        f"{LIST}, {CHECKER.name}, {SCHEMA.name} and README.md"
    )
