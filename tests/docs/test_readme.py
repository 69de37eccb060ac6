"""The README promises only what runs: its table is what the command in it prints."""

from __future__ import annotations

import json
import re
import subprocess
import sys

from planners.compare.report import percent
from tests.repository import ROOT

README = (ROOT / "README.md").read_text()
ROW = re.compile(r"^[* ]  (\S+) +(\S+) +[\d.]+ \S+ +([\d,]+)  ", re.MULTILINE)


def test_the_table_is_what_the_first_command_prints() -> None:
    printed = {
        planner: (status, int(peak.replace(",", "")))
        for planner, status, peak in ROW.findall(README)
    }
    run = subprocess.run(
        [sys.executable, "-m", "planners.compare", "instances/bert.json", "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    (instance,) = json.loads(run.stdout)["instances"]
    found = {row["planner"]: (row["status"], row["peak"]) for row in instance["results"]}
    assert printed == found
    assert f"\n{instance['instance']}: {instance['tensors']:,} tensors, " in README
    assert f"; {percent(instance['unsafe_share'])} of pairs unsafe; " in README
    for name, bound in instance["bounds"].items():
        assert f"({bound:,})" in README, name


def test_every_page_that_is_linked_exists() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links {target}"
