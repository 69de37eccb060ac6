"""The page of each study that made-up records give; run as a program it writes them anew.

    python -m tests.evaluation.pages.golden_pages

Look at what changed before it is committed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from evaluation.pages.page_material import PageMaterial
from evaluation.pages.slots import fill
from evaluation.study.record import Record, RunStatus
from evaluation.study.study_file import FOLDER, find_study
from tests.evaluation.study.made_up_records import record

GOLDEN = Path(__file__).with_name("golden")
# A line of JSON a record, with what differs from a record that is made up.
RECORDS = Path(__file__).with_name("records.jsonl")
# Drawn in a test of their own.
PICTURES = re.compile(r"\{(anytime-figure|time-figure|performance-profile)\}")


def records_of(study: str) -> list[Record]:
    """Return the made-up records of a study."""
    lines = map(json.loads, RECORDS.read_text(encoding="utf-8").splitlines())
    return [_record(line) for line in lines if line["study"] == study]


def studies_with_records() -> list[str]:
    """Return the studies that have made-up records."""
    lines = map(json.loads, RECORDS.read_text(encoding="utf-8").splitlines())
    return list(dict.fromkeys(line["study"] for line in lines))


def page_of(study: str, records: Sequence[Record]) -> str:
    """Return the page that records of a study give, without pictures."""
    text = find_study(study)
    words = PICTURES.sub("", (FOLDER / f"{study}.md").read_text(encoding="utf-8"))
    material = PageMaterial(study, records, {"question": text.question, **text.page})
    return fill(words, material, study)


def _record(line: dict[str, object]) -> Record:
    if "status" in line:
        line["status"] = RunStatus(str(line["status"]))
    if isinstance(line.get("incumbents"), list):
        line["incumbents"] = tuple(map(tuple, line["incumbents"]))
    return record(**line)  # type: ignore[arg-type]


if __name__ == "__main__":
    for name in studies_with_records():
        (GOLDEN / f"{name}.md").write_text(page_of(name, records_of(name)), encoding="utf-8")
