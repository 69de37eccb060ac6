"""The README promises only what runs: its table and its picture are of what its commands do now."""

from __future__ import annotations

import re
import subprocess
import sys

from PIL import Image

from evaluation.study.study_file import find_study
from tests.docs.front_picture import PICTURE, replayed, words_of
from tests.docs.test_results import rows_of, stands
from tests.repository import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
LEFT_OUT = "..."
MOST_LINES, MOST_BYTES = 64, 4_700
SECONDS = re.compile(r"\b\d+\.\d{3}(?= s\b|$)", re.MULTILINE)


def lines_of(text: str) -> list[str]:
    """Return the lines of a comparison without seconds, its first words in one line."""
    words, heading, table = SECONDS.sub("-", text).strip().partition("\n   planner")
    rows = f"{heading}{table}".splitlines()
    return [" ".join(line.split()) for line in (words.replace("\n", " "), *rows)]


def without_marks(text: str) -> str:
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text).replace("`", "")


def is_excerpt(shown: list[str], printed: list[str]) -> bool:
    """Return whether only lines are missing, each run of them where ``...`` stands."""
    at, left_out = 0, False
    for line in shown:
        if line == LEFT_OUT:
            left_out = True
            continue
        if line not in printed[at:]:
            return False
        found = printed.index(line, at)
        if (found > at) != left_out:
            return False
        at, left_out = found + 1, False
    return at == len(printed) and not left_out


def test_the_table_is_an_excerpt_of_what_the_first_command_prints() -> None:
    (shown,) = re.findall(r"^```text\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    run = subprocess.run(
        [sys.executable, "-m", "planners.compare", "instances/bert.json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert is_excerpt(lines_of(shown), lines_of(run.stdout)), run.stdout


def test_lines_that_are_left_out_are_marked() -> None:
    printed = ["head", "a", "b", "c", "foot"]
    assert is_excerpt(["head", "a", LEFT_OUT, "c", "foot"], printed)
    assert not is_excerpt(["head", "a", "c", "foot"], printed)
    assert not is_excerpt(["head", "a", LEFT_OUT, "b", "c", "foot"], printed)
    assert not is_excerpt(["head", LEFT_OUT, "c", "b", "foot"], printed)
    assert not is_excerpt(["head", LEFT_OUT, "c"], printed)


def test_the_picture_is_of_what_allocators_hold_today() -> None:
    words = words_of(replayed())
    assert f"![{words}]({PICTURE.relative_to(ROOT)})" in README
    assert Image.open(PICTURE).info["Description"] == words


def test_the_measured_rows_stand_on_the_page_of_programs() -> None:
    page = (ROOT / "docs" / "benchmarks" / "programs.md").read_text(encoding="utf-8")
    heading, *every = (row for row in rows_of(page.partition("## ")[0]) if row[1:2] != ["---:"])
    columns = ("default", "expandable", "planned", "to faster", "in the allocator")
    results = {row[0]: [row[heading.index(its)] for its in columns] for row in every[1:]}
    typical = results.pop("median")
    kept = {name: float(row[2]) / min(map(float, row[:2])) for name, row in results.items()}
    rows = [row for row in rows_of(README) if len(row) == 6 and ":" in row[0]]
    assert len(rows) == 2
    for name, *measured in rows:
        assert measured == results[name.partition("`:")[0]]
    # "One gains most, one alone loses."
    names = [row[0].partition("`:")[0] for row in rows]
    assert names == [min(kept, key=kept.__getitem__), max(kept, key=kept.__getitem__)]
    slower = [share for row in results.values() if (share := float(row[3].rstrip(" %"))) > 0]
    (said,) = re.findall(r"In (\d+) of (\d+) a step is slower, by up to ([\d.]+) %", README)
    assert said == (str(len(slower)), str(len(results)), f"{max(slower):.2f}")
    assert f"takes {typical[4].lstrip('+')} of a step more, in the median" in README


def test_the_claims_stand_on_the_page_of_results() -> None:
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    claims = re.findall(
        r"^\| \[.+?\]\(\S+\): (.+) \| `(python -m [^`]+)`(.*) \|$", README, re.MULTILINE
    )
    assert len(claims) == 3
    _, _, commands = page.partition("## Make a figure again")
    heading, *rows = (row for row in rows_of(page) if len(row) == 8)
    recorded = {row[0]: dict(zip(heading, row, strict=True)) for row in rows}
    for claim, command, needs in claims:
        before, of_a_recording, pairs = claim.rpartition("`: ")
        if of_a_recording:
            recording = before.rpartition("`")[2]
            found = dict(re.findall(r"([\w-]+)`? ([\d.]+)", pairs))
            assert found
            assert {name: recorded[recording][name] for name in found} == found
        else:
            assert any(stands(claim, line) for line in page.splitlines()), claim
        # Each line says what that page says the command needs.
        run, _, study = command.rpartition(" ")
        (row,) = (
            row for row in rows_of(commands) if run in row[1] and f" {study}`" in f"{row[1]}`"
        )
        assert needs.replace("`", "") == (f", needs {without_marks(row[2])}" if row[2] else "")
        assert ("--folder" in command) == bool(find_study(study).folders)


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= MOST_LINES
    assert len(README.encode()) <= MOST_BYTES
