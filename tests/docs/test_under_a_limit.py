"""What the guide says of measured steps within a limit stands on the page of measurements."""

from __future__ import annotations

import re

from tests.docs.test_results import DOCS, rows_of

GUIDE = " ".join((DOCS / "under-a-limit.md").read_text(encoding="utf-8").split())
PAGE = (DOCS / "benchmarks" / "within-a-limit.md").read_text(encoding="utf-8")
DEFAULT = PAGE.partition("## Below planned memory")[0]
HEADINGS = (
    "model", "step", "again", "predicted", "measured", "off", "reserved", "ms", "more",
    "by profile", "by rates",
)  # fmt: skip
ROWS = [dict(zip(HEADINGS, cells, strict=False)) for cells in rows_of(DEFAULT)[2:]]
MORE = {(row["model"], row["step"]): float(row["more"] or 0) for row in ROWS}
BY_RATES = {(row["model"], row["step"]): float(row["by rates"]) for row in ROWS if row["by rates"]}


def said(pattern: str) -> list[float]:
    """Return the numbers that the guide says in a sentence."""
    found = re.search(pattern, GUIDE)
    assert found is not None, pattern
    return [float(number) for number in found.groups()]


def test_the_guide_says_what_was_measured() -> None:
    off = max(float(row["off"].strip("+%")) for row in ROWS if row["off"])
    assert said(r"right to ([\d.]+) %") == [round(off, 1)]
    ratios = [MORE[key] / BY_RATES[key] for key in BY_RATES if key[0] != "gpt2-medium"]
    assert said(r"was ([\d.]+) to ([\d.]+) times") == [round(min(ratios), 1), round(max(ratios), 1)]
    bert, gpt2 = ("bert-base", "within 80%"), ("gpt2-medium", "within 80%")
    every = MORE["bert-base", "every block again"]
    took = r"predicted at \+([\d.]+) ms and took \+([\d.]+), where every block again took \+(\d+)\."
    assert said(took) == [BY_RATES[bert], MORE[bert], round(every)]
    assert said(r"a step of (\d+) ms, was predicted at \+([\d.]+) ms and took \+(\d+)\.") == [
        next(float(row["ms"]) for row in ROWS if row["model"] == "gpt2-medium"),
        BY_RATES[gpt2], round(MORE[gpt2]),
    ]  # fmt: skip
    assert said(r"with every block again \(\+(\d+)\)") == [
        round(MORE["gpt2-medium", "every block again"])
    ]


def test_every_block_again_was_faster_where_the_host_decides() -> None:
    steps = [row for row in ROWS if row["model"] == "gpt2-medium" and row["more"]]
    *within, every = steps
    assert len(within) == 3
    assert min(float(row["more"]) for row in within) > float(every["more"])
    assert min(float(row["measured"]) for row in within) > float(every["measured"])
