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
STEPS = {(row["model"], row["step"]): row for row in ROWS}
MORE = {(row["model"], row["step"]): float(row["more"] or 0) for row in ROWS}
BY_RATES = {(row["model"], row["step"]): float(row["by rates"]) for row in ROWS if row["by rates"]}


def said(pattern: str) -> list[float]:
    """Return the numbers that the guide says in a sentence."""
    found = re.search(pattern, GUIDE)
    assert found is not None, pattern
    return [float(number) for number in found.groups()]


def test_the_guide_says_what_was_measured() -> None:
    off = max(float(row["off"].strip("+%")) for row in ROWS if row["off"])
    assert said(r"right to ([\d.]+) %") == [off]
    # "The extra time was longer than predicted."
    assert all(MORE[key] > BY_RATES[key] for key in BY_RATES)
    took = r"was predicted at \+([\d.]+) ms and took \+([\d.]+\d)"
    for model, share in (("bert-base", 80), ("vit-base", 60), ("gpt2-medium", 80)):
        step = (model, f"within {share}%")
        words = rf"\*{model}\* within {share} %(?:, a step of \d+ ms,)? {took}"
        assert said(words) == [BY_RATES[step], MORE[step]]
    assert said(r"a step of (\d+) ms") == [float(STEPS["gpt2-medium", "as it is"]["ms"])]
    for model, words in (
        ("bert-base", r"where every block again took \+([\d.]+)\."),
        ("gpt2-medium", r"with every block again \(\+([\d.]+)\)"),
    ):
        assert said(words) == [MORE[model, "every block again"]]


def test_every_block_again_was_faster_where_the_host_decides() -> None:
    steps = [row for row in ROWS if row["model"] == "gpt2-medium" and row["more"]]
    *within, every = steps
    assert len(within) == 3
    assert min(float(row["more"]) for row in within) > float(every["more"])
    assert min(float(row["measured"]) for row in within) > float(every["measured"])
